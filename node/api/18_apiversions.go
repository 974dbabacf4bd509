package api

// ApiVersions: what is served.
//
//	0  keys and versions     1  throttle time     3  flexible; client software; features
//	4  the lowest version of a supported feature may be 0
//
// The reply's header is never flexible. A version that is not served is answered with
// version 0, UNSUPPORTED_VERSION and this key alone, from which a client knows what to ask
// again with.

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/meta"
)

func (s *Service) apiVersions(t *task.T, r *conn.Request, req *kmsg.ApiVersionsRequest) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	if r.Version >= 3 && (!validSoftware(req.ClientSoftwareName) || !validSoftware(req.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp
	}
	for _, e := range s.entries {
		if e != nil {
			resp.ApiKeys = append(resp.ApiKeys, e.listed())
		}
	}
	s.addFeatures(r.Version, resp)
	return resp
}

func (e *entry) listed() kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = e.key, e.listedMin, e.max
	return k
}

func (s *Service) addFeatures(version int16, resp *kmsg.ApiVersionsResponse) {
	for _, f := range s.Config().Features {
		if version < 4 && f.Min == 0 {
			// Clients of version 3 take 0 for malformed (KAFKA-17011).
			continue
		}
		sf := kmsg.NewApiVersionsResponseSupportedFeature()
		sf.Name, sf.MinVersion, sf.MaxVersion = f.Name, f.Min, f.Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, sf)
	}
	image := s.Image()
	for name, level := range image.Features() {
		if level > 0 {
			resp.FinalizedFeatures = append(resp.FinalizedFeatures, finalized(name, level))
		}
	}
	if level := s.Quorum.KRaftVersion(); level > 0 {
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, finalized(meta.KRaftVersionFeature, level))
	}
	resp.FinalizedFeaturesEpoch = max(image.Offset, 0)
}

func finalized(name string, level int16) kmsg.ApiVersionsResponseFinalizedFeature {
	f := kmsg.NewApiVersionsResponseFinalizedFeature()
	f.Name, f.MinVersionLevel, f.MaxVersionLevel = name, level, level
	return f
}

// validSoftware is KIP-511's pattern: letters, digits, '-' and '.', neither of them at the
// ends.
func validSoftware(s string) bool {
	if s == "" {
		return false
	}
	word := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }
	if !word(s[0]) || !word(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !word(s[i]) && s[i] != '-' && s[i] != '.' {
			return false
		}
	}
	return true
}

// refuse answers an ApiVersions in a version that is not served, in version 0. Of anything else
// that is not served the connection is closed before it comes here.
func (s *Service) refuse(reply *conn.Reply) {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 0
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = append(resp.ApiKeys, s.entry(int16(kmsg.ApiVersions)).listed())
	reply.SendBody(resp.AppendTo(reply.Buffer()))
}
