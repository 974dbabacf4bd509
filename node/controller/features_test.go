package controller

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
)

// finalize asks for a level and returns the error's text, "" for none.
func (w *world) finalize(kind int8, dry bool, updates ...any) string {
	w.t.Helper()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version, req.ValidateOnly = 1, dry
	for i := 0; i < len(updates); i += 2 {
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = updates[i].(string), int16(updates[i+1].(int)), kind
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	resp := w.do(req).(*kmsg.UpdateFeaturesResponse)
	if resp.ErrorCode == 0 {
		if len(resp.Results) != len(req.FeatureUpdates) {
			w.t.Fatalf("%d results for %d updates", len(resp.Results), len(req.FeatureUpdates))
		}
		return ""
	}
	if resp.ErrorCode != kerr.InvalidUpdateVersion.Code || len(resp.Results) > 0 {
		w.t.Fatalf("%+v", resp)
	}
	return *resp.ErrorMessage
}

func TestFeatureLevels(t *testing.T) {
	const mv, elr = meta.MetadataVersionFeature, meta.ELRVersionFeature
	w := newWorld(t, nil)
	w.start(1)
	for _, c := range []struct {
		name    string
		kind    int8
		updates []any
		want    string // part of the error
		levels  [2]int16
	}{
		{"an upgrade", upgrade, []any{mv, 27}, "", [2]int16{27, 1}},
		{"the same level again", upgrade, []any{mv, 27}, "", [2]int16{27, 1}},
		{"beyond what is served", upgrade, []any{mv, 28}, "Local controller only supports versions 21-27", [2]int16{27, 1}},
		{"no such feature", upgrade, []any{"x", 1}, "Local controller does not support this feature.", [2]int16{27, 1}},
		{"one not served", upgrade, []any{meta.GroupVersionFeature, 1}, "does not support this feature", [2]int16{27, 1}},
		{"negative", upgrade, []any{mv, -1}, "cannot be less than 0", [2]int16{27, 1}},
		{"of no kind", 0, []any{mv, 27}, "does not support the given upgrade type", [2]int16{27, 1}},
		{"a downgrade that is called none", upgrade, []any{mv, 25}, "Can't downgrade the version of this feature without", [2]int16{27, 1}},
		{"a downgrade that loses nothing", safeDowngrade, []any{mv, 23}, "", [2]int16{23, 1}},
		{"one upwards", safeDowngrade, []any{mv, 25}, "Can't downgrade to a newer version.", [2]int16{23, 1}},
		{"one that loses the ELR", safeDowngrade, []any{mv, 22}, "might delete metadata", [2]int16{23, 1}},
		{"what another feature builds on", unsafeDowngrade, []any{mv, 22}, "depends on metadata.version level 23", [2]int16{23, 1}},
		{"twice", upgrade, []any{elr, 1, elr, 1}, "named twice", [2]int16{23, 1}},
		{"all or none", upgrade, []any{mv, 25, elr, 2}, "Local controller only supports versions 0-1", [2]int16{23, 1}},
		{"both", unsafeDowngrade, []any{mv, 21, elr, 0}, "", [2]int16{21, 0}},
		{"before what it builds on", upgrade, []any{elr, 1}, "could not be set to 1 because it depends on metadata.version level 23", [2]int16{21, 0}},
		{"together with what it builds on", upgrade, []any{elr, 1, mv, 25}, "", [2]int16{25, 1}},
		{"the quorum's", upgrade, []any{meta.KRaftVersionFeature, 1}, "", [2]int16{25, 1}},
		{"the quorum's, beyond what is served", upgrade, []any{meta.KRaftVersionFeature, 2}, "Local controller only supports versions 0-1", [2]int16{25, 1}},
	} {
		before := len(w.log)
		if dry := w.finalize(c.kind, true, c.updates...); (dry == "") != (c.want == "") || len(w.log) != before {
			t.Errorf("%s, dry: %q and %d records", c.name, dry, len(w.log)-before)
		}
		got := w.finalize(c.kind, false, c.updates...)
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if now := [2]int16{w.state.image.Feature(mv), w.state.image.Feature(elr)}; now != c.levels {
			t.Errorf("%s: levels %v, want %v", c.name, now, c.levels)
		}
	}
	old := kmsg.NewPtrUpdateFeaturesRequest()
	old.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: mv, MaxVersionLevel: 24, AllowDowngrade: true}}
	if r := w.do(old).(*kmsg.UpdateFeaturesResponse); r.ErrorCode != 0 || w.state.image.MetadataVersion() != 24 {
		t.Errorf("version 0: %+v", r)
	}
}

// The level of kraft.version is no record of the controller's: the quorum takes it, or refuses
// for all. It never goes down.
func TestTheLevelOfTheQuorum(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version = 1
	for _, name := range []string{meta.KRaftVersionFeature, meta.MetadataVersionFeature} {
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.UpgradeType, u.MaxVersionLevel = name, upgrade, 1
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	req.FeatureUpdates[1].MaxVersionLevel = 27
	in := Input{NextOffset: int64(len(w.log)), Rand: w.rnd}
	d := w.state.Decide(req, in)
	if len(d.Records) != 1 || d.Records[0].Body.(*meta.FeatureLevelRecord).Name != meta.MetadataVersionFeature || d.KRaftVersion != 1 {
		t.Errorf("%+v", d)
	}
	why := *Refused(req, kerr.InvalidUpdateVersion.Code, "voter 2 is odd").(*kmsg.UpdateFeaturesResponse).ErrorMessage
	if want := "Invalid update version 1 for feature kraft.version. voter 2 is odd."; !strings.HasSuffix(why, want) {
		t.Errorf("%q", why)
	}
	req.FeatureUpdates[1].MaxVersionLevel = 28
	if d = w.state.Decide(req, in); d.KRaftVersion != 0 || len(d.Records) > 0 || d.Response.(*kmsg.UpdateFeaturesResponse).ErrorCode == 0 {
		t.Errorf("all or none: %+v", d)
	}
	in.KRaftVersion = 1
	req.FeatureUpdates[0].MaxVersionLevel, req.FeatureUpdates[1].MaxVersionLevel = 0, 27
	for kind, want := range map[int8]string{upgrade: "without setting the upgrade type", safeDowngrade: "Can't downgrade the version of this feature.", unsafeDowngrade: "Can't downgrade the version of this feature."} {
		req.FeatureUpdates[0].UpgradeType = kind
		r := w.state.Decide(req, in).Response.(*kmsg.UpdateFeaturesResponse)
		if r.ErrorCode != kerr.InvalidUpdateVersion.Code || !strings.Contains(*r.ErrorMessage, want) {
			t.Errorf("down, kind %d: %+v", kind, r)
		}
	}
}

// Of an update that the quorum refuses nothing is in the log: no leader is waited for to read it.
func TestARefusedUpdateIsNotToBeRead(t *testing.T) {
	w := newWorld(t, nil)
	w.start(2)
	w.create("t", 1, 2)
	w.configure("t", minISRName, "2")
	w.heartbeat(1, nil)
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version = 1
	for name, level := range map[string]int16{meta.KRaftVersionFeature: 1, meta.MetadataVersionFeature: 27} {
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.UpgradeType, u.MaxVersionLevel = name, upgrade, level
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	if d := w.state.Decide(req, Input{NextOffset: int64(len(w.log)), Rand: w.rnd}); len(d.Records) == 0 || d.KRaftVersion != 1 {
		t.Fatalf("%+v", d)
	}
	if got := w.propose(1); got.ErrorCode != 0 {
		t.Errorf("the ISR of a leader that has read everything: error code %d", got.ErrorCode)
	}
}

func TestEveryNodeMustSupportALevel(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	req := registration(2, 1, -1, "")
	for i := range req.Features {
		if req.Features[i].Name == meta.MetadataVersionFeature {
			req.Features[i].MaxSupportedVersion = 25
		}
	}
	w.do(req)
	if why := w.finalize(upgrade, false, meta.MetadataVersionFeature, 27); !strings.Contains(why, "Broker 2 only supports versions 21-25") {
		t.Error(why)
	}
	in := Input{NextOffset: int64(len(w.log)), Rand: w.rnd, Voters: []int32{7}}
	again := kmsg.NewPtrUpdateFeaturesRequest()
	again.Version = 2
	again.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: meta.MetadataVersionFeature, MaxVersionLevel: 25, UpgradeType: upgrade}}
	if r := w.state.Decide(again, in).Response.(*kmsg.UpdateFeaturesResponse); r.ErrorCode == 0 || !strings.Contains(*r.ErrorMessage, "controller 7 has not registered") {
		t.Errorf("%+v", r)
	}
	c := kmsg.NewPtrControllerRegistrationRequest()
	c.ControllerID = 7
	w.do(c)
	in.NextOffset = int64(len(w.log))
	if r := w.state.Decide(again, in).Response.(*kmsg.UpdateFeaturesResponse); r.ErrorCode == 0 || !strings.Contains(*r.ErrorMessage, "Controller 7 does not support") {
		t.Errorf("%+v", r)
	}
}

func TestELRIsSwitchedOffAndOn(t *testing.T) {
	w := newWorld(t, map[string]string{"min.insync.replicas": "2"})
	w.start(3)
	w.create("t", 1, 2, 3)
	w.silence(3)
	w.silence(1)
	w.silence(2)
	w.want("t", "leader=-1 isr=[] elr=[1 2] last=[2] recovering=0")
	const elr = meta.ELRVersionFeature
	if why := w.finalize(safeDowngrade, false, elr, 0); why != "" {
		t.Fatal(why)
	}
	// One who surely has everything is the last member.
	w.want("t", "leader=-1 isr=[1] elr=[] last=[] recovering=0")
	w.heartbeat(3, nil)
	w.heartbeat(1, nil)
	w.want("t", "leader=1 isr=[1] elr=[] last=[] recovering=0")
	w.silence(1)
	w.want("t", "leader=-1 isr=[1] elr=[] last=[] recovering=0")
	if why := w.finalize(upgrade, false, elr, 1); why != "" {
		t.Fatal(why)
	}
	w.want("t", "leader=-1 isr=[] elr=[1] last=[1] recovering=0")
	// Of the last known leader nobody knows what it has: it recovers, with ELR or without.
	w.register(1, 2, -1, "")
	w.want("t", "leader=-1 isr=[] elr=[] last=[1] recovering=0")
	w.finalize(safeDowngrade, false, elr, 0)
	w.want("t", "leader=-1 isr=[1] elr=[] last=[] recovering=1")
	w.heartbeat(1, nil)
	w.want("t", "leader=1 isr=[1] elr=[] last=[] recovering=1")
}

// One value of min.insync.replicas counts while ELR is kept.
func TestELRTakesTheSettingsOfSingleBrokersAway(t *testing.T) {
	w := newWorld(t, map[string]string{"min.insync.replicas": "2"})
	w.start(1)
	w.finalize(safeDowngrade, false, meta.ELRVersionFeature, 0)
	two := "3"
	w.append([]meta.Record{minISRRecord("", nil), minISRRecord("1", &two)})
	w.finalize(upgrade, false, meta.ELRVersionFeature, 1)
	if v, _ := w.state.image.Config(meta.BrokerResource, "").Get(minISRName); v != "2" {
		t.Errorf("of the cluster: %q", v)
	}
	if v, set := w.state.image.Config(meta.BrokerResource, "1").Get(minISRName); set {
		t.Errorf("of broker 1: %q", v)
	}
}
