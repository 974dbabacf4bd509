package controller

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
)

// serving is a registration of a broker that serves metadata.version between two levels.
func serving(id int32, incarnation byte, min, max int16) *kmsg.BrokerRegistrationRequest {
	req := registration(id, incarnation, -1, "")
	for i := range req.Features {
		if f := &req.Features[i]; f.Name == meta.MetadataVersionFeature {
			f.MinSupportedVersion, f.MaxSupportedVersion = min, max
		}
	}
	return req
}

func TestAnOlderControllerFinalizesNothingThatItDoesNotServe(t *testing.T) {
	w := newWorld(t, map[string]string{"internal.metadata.version.max": "26", "internal.eligible.leader.replicas.version.max": "0"})
	w.start(1)
	for _, c := range []struct {
		feature string
		level   int
		want    string
	}{
		{meta.MetadataVersionFeature, 27, "Local controller only supports versions 21-26"},
		{meta.MetadataVersionFeature, 26, ""},
		{meta.ELRVersionFeature, 1, "Local controller does not support this feature."},
	} {
		if why := w.finalize(upgrade, false, c.feature, c.level); !strings.Contains(why, c.want) || (why == "") != (c.want == "") {
			t.Errorf("%s %d: %q, want %q", c.feature, c.level, why, c.want)
		}
	}
}

func TestABrokerMustServeWhatIsFinalized(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	without := registration(2, 1, -1, "")
	without.Features = nil
	for _, c := range []struct {
		name string
		req  *kmsg.BrokerRegistrationRequest
		want *kerr.Error
	}{
		{"an older one", serving(2, 1, 21, 24), kerr.UnsupportedVersion},
		{"a newer one, that dropped it", serving(2, 1, 26, 30), kerr.UnsupportedVersion},
		{"one that says nothing", without, kerr.UnsupportedVersion},
		{"one that goes just so far", serving(2, 1, 21, 25), nil},
		{"the same with another build, while it is down", serving(2, 2, 21, 24), kerr.UnsupportedVersion},
	} {
		before := len(w.log)
		got := kerr.ErrorForCode(w.do(c.req).(*kmsg.BrokerRegistrationResponse).ErrorCode)
		if c.want == nil && got != nil || c.want != nil && got != c.want || c.want != nil && len(w.log) != before {
			t.Errorf("%s: %v and %d records, want %v", c.name, got, len(w.log)-before, c.want)
		}
	}
	// It counts while it is fenced, too, until it is unregistered.
	if why := w.finalize(upgrade, false, meta.MetadataVersionFeature, 26); !strings.Contains(why, "Broker 2 only supports versions 21-25") {
		t.Error(why)
	}
	gone := kmsg.NewPtrUnregisterBrokerRequest()
	gone.BrokerID = 2
	w.do(gone)
	if why := w.finalize(upgrade, false, meta.MetadataVersionFeature, 26); why != "" {
		t.Error(why)
	}
}
