package controller

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
)

// Kinds of feature update (KIP-584, KIP-778).
const (
	upgrade         = 1
	safeDowngrade   = 2
	unsafeDowngrade = 3
)

// updateFeatures changes finalized levels, all of them or none. Version 0 says only whether
// a downgrade is allowed; 1 knows its kind, and can only check; 2 has no result per feature.
func (s *State) updateFeatures(r *kmsg.UpdateFeaturesRequest, in Input) Decision {
	records, err := s.featureRecords(r, in)
	if err != nil {
		return Decision{Response: failedFeatures(r, err)}
	}
	resp := r.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	for _, u := range r.FeatureUpdates {
		if r.Version < 2 {
			out := kmsg.NewUpdateFeaturesResponseResult()
			out.Feature = u.Feature
			resp.Results = append(resp.Results, out)
		}
	}
	level := quorumLevel(r)
	if r.ValidateOnly {
		records = nil
	}
	if len(records) > 0 && level <= in.KRaftVersion { // else the quorum may refuse, and nothing is appended
		s.minISRSetAt = in.NextOffset + int64(len(records)) - 1
	}
	return Decision{Records: records, Response: resp, KRaftVersion: level}
}

// quorumLevel is the level of kraft.version that is asked for, or 0. It stands in control
// records, which are the quorum's to write: it alone knows what its voters are.
func quorumLevel(r *kmsg.UpdateFeaturesRequest) int16 {
	for _, u := range r.FeatureUpdates {
		if u.Feature == meta.KRaftVersionFeature {
			return u.MaxVersionLevel
		}
	}
	return 0
}

// Refused is the response to a request whose level of kraft.version the quorum does not take.
func Refused(r *kmsg.UpdateFeaturesRequest, code int16, why string) kmsg.Response {
	if code == kerr.InvalidUpdateVersion.Code {
		u := kmsg.UpdateFeaturesRequestFeatureUpdate{Feature: meta.KRaftVersionFeature, MaxVersionLevel: quorumLevel(r)}
		why = invalidLevel(u, "%s.", why).text
	}
	return failedFeatures(r, &apiError{code, why})
}

func failedFeatures(r *kmsg.UpdateFeaturesRequest, err *apiError) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	text := "The update failed for all features since the following feature had an error: " + err.text
	resp.ErrorCode, resp.ErrorMessage = err.code, &text
	return resp
}

func (s *State) featureRecords(r *kmsg.UpdateFeaturesRequest, in Input) ([]meta.Record, *apiError) {
	proposed := s.proposedLevels(r.FeatureUpdates, in)
	var records []meta.Record
	for i, u := range r.FeatureUpdates {
		if slices.ContainsFunc(r.FeatureUpdates[:i], func(o kmsg.UpdateFeaturesRequestFeatureUpdate) bool { return o.Feature == u.Feature }) {
			return nil, invalidLevel(u, "The feature is named twice.")
		}
		kind := u.UpgradeType
		if r.Version == 0 {
			kind = upgrade
			if u.AllowDowngrade {
				kind = safeDowngrade
			}
		}
		if err := s.checkLevel(u, kind, proposed, in); err != nil {
			return nil, err
		}
		if u.Feature != meta.KRaftVersionFeature && u.MaxVersionLevel != s.level(u.Feature, in) {
			records = append(records, meta.Record{Body: &meta.FeatureLevelRecord{Name: u.Feature, FeatureLevel: u.MaxVersionLevel}})
		}
	}
	return append(s.beforeLevels(proposed), append(records, s.afterLevels(records)...)...), nil
}

// beforeLevels are records that only the levels of now can carry.
func (s *State) beforeLevels(proposed map[string]int16) []meta.Record {
	if s.elrEnabled() && proposed[meta.ELRVersionFeature] == 0 {
		return s.elrEnds()
	}
	return nil
}

// afterLevels are records that come with new levels.
func (s *State) afterLevels(levels []meta.Record) []meta.Record {
	next := s.after(levels)
	if s.elrEnabled() || !next.elrEnabled() {
		return nil
	}
	begins := next.elrBegins()
	return append(begins, next.after(begins).fencedLeaveISR()...)
}

func (s *State) level(feature string, in Input) int16 {
	if feature == meta.KRaftVersionFeature {
		return in.KRaftVersion
	}
	return s.image.Feature(feature)
}

// proposedLevels are those that would be finalized.
func (s *State) proposedLevels(updates []kmsg.UpdateFeaturesRequestFeatureUpdate, in Input) map[string]int16 {
	proposed := map[string]int16{meta.KRaftVersionFeature: in.KRaftVersion}
	for name, level := range s.image.Features() {
		proposed[name] = level
	}
	for _, u := range updates {
		proposed[u.Feature] = u.MaxVersionLevel
	}
	return proposed
}

func invalidLevel(u kmsg.UpdateFeaturesRequestFeatureUpdate, format string, args ...any) *apiError {
	return failf(kerr.InvalidUpdateVersion, "Invalid update version %d for feature %s. %s", u.MaxVersionLevel, u.Feature, fmt.Sprintf(format, args...))
}

func (s *State) checkLevel(u kmsg.UpdateFeaturesRequestFeatureUpdate, kind int8, proposed map[string]int16, in Input) *apiError {
	now, next := s.level(u.Feature, in), u.MaxVersionLevel
	switch {
	case kind < upgrade || kind > unsafeDowngrade:
		return invalidLevel(u, "The controller does not support the given upgrade type.")
	case next < 0:
		return invalidLevel(u, "A feature version cannot be less than 0.")
	}
	if why := s.notSupported(u.Feature, next, in); why != "" {
		return invalidLevel(u, "%s", why)
	}
	switch {
	case next < now && kind == upgrade:
		return invalidLevel(u, "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case next > now && kind != upgrade:
		return invalidLevel(u, "Can't downgrade to a newer version.")
	case u.Feature == meta.KRaftVersionFeature && next < now:
		return invalidLevel(u, "Can't downgrade the version of this feature.")
	case u.Feature == meta.MetadataVersionFeature && next < now && kind == safeDowngrade && meta.ChangedBetween(next, now):
		return failf(kerr.InvalidUpdateVersion, "Invalid metadata.version %d. Refusing to perform the requested downgrade because it might delete metadata information.", next)
	}
	return s.checkDependencies(u, proposed)
}

// checkDependencies: features build on others. A level that is left alone must not lose what
// it builds on, either.
func (s *State) checkDependencies(u kmsg.UpdateFeaturesRequestFeatureUpdate, proposed map[string]int16) *apiError {
	for _, d := range meta.Dependencies() {
		if proposed[d.Feature] < d.Level || proposed[d.On] >= d.OnLevel {
			continue
		}
		if u.Feature == d.Feature || u.Feature == d.On {
			return invalidLevel(u, "%s could not be set to %d because it depends on %s level %d", d.Feature, proposed[d.Feature], d.On, d.OnLevel)
		}
	}
	return nil
}

// notSupported is who does not support a level, this node first, or "".
func (s *State) notSupported(feature string, level int16, in Input) string {
	if why := outside("Local controller", s.static.Features, feature, level); why != "" {
		return why
	}
	for b := range s.image.Brokers() {
		if why := outside("Broker "+decimal(b.ID), b.Features, feature, level); why != "" {
			return why
		}
	}
	for c := range s.image.Controllers() {
		if why := outside("Controller "+decimal(c.ControllerID), c.Features, feature, level); why != "" {
			return why
		}
	}
	for _, id := range in.Voters {
		if s.image.Controller(id) == nil {
			return "controller " + decimal(id) + " has not registered, and may not support this feature"
		}
	}
	return ""
}

// outside says why a node does not support the level. A feature that it does not name it
// does not know: to it that is level 0.
func outside(who string, supported []meta.FeatureRange, feature string, level int16) string {
	for _, f := range supported {
		if f.Name != feature {
			continue
		}
		if level >= f.Min && level <= f.Max {
			return ""
		}
		if f.Max == 0 {
			break
		}
		return fmt.Sprintf("%s only supports versions %d-%d", who, f.Min, f.Max)
	}
	if level == 0 {
		return ""
	}
	return who + " does not support this feature."
}
