package node_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
)

// finalize asks a member for a level of metadata.version and returns the error's text.
func (m *member) finalize(level int16) string {
	m.c.t.Helper()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.TimeoutMillis = int32(patience.Milliseconds())
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = meta.MetadataVersionFeature, level, 1
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	resp := m.request(req).(*kmsg.UpdateFeaturesResponse)
	if resp.ErrorCode == 0 {
		return ""
	}
	return *resp.ErrorMessage
}

// served is what a member says that it serves of metadata.version.
func (m *member) served() (out [2]int16) {
	m.c.t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
	for _, f := range m.request(req).(*kmsg.ApiVersionsResponse).SupportedFeatures {
		if f.Name == meta.MetadataVersionFeature {
			out = [2]int16{f.MinVersion, f.MaxVersion}
		}
	}
	return out
}

// A cluster of nodes of several builds finalizes only what all of them serve, and a node that
// does not serve what is finalized ends, with one line that says so.
func TestFeatureLevelsOfAMixedCluster(t *testing.T) {
	c := newCluster(t, 1, false, nil)
	c.start()
	lead := c.members[0]
	old := c.addBroker(2, freePorts(t, 1)[0])
	old.settings["internal.metadata.version.max"] = "25"
	old.run()
	old.ready()
	if got := [2][2]int16{lead.served(), old.served()}; got != [2][2]int16{{21, 27}, {21, 25}} {
		t.Errorf("served: %v", got)
	}
	if why := old.finalize(26); !strings.Contains(why, "Broker 2 only supports versions 21-25") {
		t.Errorf("with an older broker: %q", why)
	}
	if err := old.stop(); err != nil {
		t.Fatal(err)
	}
	old.settings["internal.metadata.version.max"] = "26"
	old.run()
	old.ready()
	if why := old.finalize(26); why != "" {
		t.Errorf("after its upgrade: %q", why)
	}
	if err := old.stop(); err != nil {
		t.Fatal(err)
	}
	line := "feature metadata.version is finalized at level 26; this node serves 21 to 25"
	old.settings["internal.metadata.version.max"] = "25"
	c.refusedToStart(old, line) // by its own log
	fresh := c.addBroker(3, freePorts(t, 1)[0])
	c.members = c.members[:2]
	fresh.settings["internal.metadata.version.max"] = "25"
	c.refusedToStart(fresh, line) // by what it fetches
	if err := lead.stop(); err != nil {
		t.Fatal(err)
	}
	lead.settings["internal.metadata.version.max"] = "25"
	c.refusedToStart(lead, line) // the quorum itself
}
