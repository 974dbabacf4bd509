package api

// DescribeConfigs: effective settings, their sources and synonyms.
//
//	1  source and synonyms     3  type and documentation     4  flexible
//
// Topics, this broker, and the defaults of all brokers have tables of settings. Of client
// metrics and groups what is set on them is shown; loggers there are none. A resource that
// is named again is answered once: six bytes of a request would become thirty thousand.

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/config"
	"seedlog/node/conn"
	"seedlog/node/controller"
	"seedlog/node/meta"
)

// The sources that config.Source has no value for.
const (
	sourceClientMetrics = 7
	sourceGroup         = 8
)

func (s *Service) describeConfigs(t *task.T, r *conn.Request, req *kmsg.DescribeConfigsRequest) kmsg.Response {
	image := s.Image()
	resp := kmsg.NewPtrDescribeConfigsResponse()
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	seen := make(map[resource]bool)
	for i := range req.Resources {
		asked := &req.Resources[i]
		if seen[resource{asked.ResourceType, asked.ResourceName}] {
			continue
		}
		seen[resource{asked.ResourceType, asked.ResourceName}] = true
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = asked.ResourceType, asked.ResourceName
		entries, code, message := s.configsOf(image, asked)
		if code != 0 {
			out.ErrorCode, out.ErrorMessage = code, textOrNil(message)
		}
		for j := range entries {
			if len(asked.ConfigNames) == 0 || slices.Contains(asked.ConfigNames, entries[j].Name) {
				out.Configs = append(out.Configs, configEntry(&entries[j], req))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// configsOf lists the settings of a resource, or says why it cannot.
func (s *Service) configsOf(image *meta.Image, asked *kmsg.DescribeConfigsRequestResource) (entries []config.Entry, code int16, message string) {
	cfg := s.Config()
	name := asked.ResourceName
	switch meta.ResourceType(asked.ResourceType) {
	case meta.TopicResource:
		if bad := controller.CheckTopicName(name); bad != "" {
			return nil, kerr.InvalidTopicException.Code, bad
		}
		if image.Topic(name) == nil {
			return nil, kerr.UnknownTopicOrPartition.Code, ""
		}
		return cfg.DescribeTopic(image.Config(meta.TopicResource, name).Map()), 0, ""
	case meta.BrokerResource:
		if name == "" {
			return cfg.DescribeDynamic(image.Config(meta.BrokerResource, "").Map(), config.SourceDynamicDefault), 0, ""
		}
		if code, message := s.notMe(name); code != 0 {
			return nil, code, message
		}
		return cfg.DescribeBroker(), 0, ""
	case meta.BrokerLoggerResource:
		code, message := s.notMe(name)
		return nil, code, message
	case meta.ClientMetricsResource, meta.GroupResource:
		if name == "" {
			return nil, kerr.InvalidRequest.Code, "The resource name must not be empty"
		}
		kind, source := meta.ResourceType(asked.ResourceType), config.Source(sourceClientMetrics)
		if kind == meta.GroupResource {
			source = sourceGroup
		}
		return cfg.DescribeDynamic(image.Config(kind, name).Map(), source), 0, ""
	}
	return nil, kerr.InvalidRequest.Code, "Unsupported resource type: " + decimal(int64(asked.ResourceType))
}

// notMe refuses a broker id that is not this broker's.
func (s *Service) notMe(name string) (int16, string) {
	id, err := strconv.ParseInt(name, 10, 32)
	switch {
	case err != nil:
		return kerr.InvalidRequest.Code, "Broker id must be an integer, but it is: " + name
	case int32(id) != s.NodeID:
		return kerr.InvalidRequest.Code, "Unexpected broker id, expected " + decimal(int64(s.NodeID)) + " or empty string, but received " + name
	}
	return 0, ""
}

func configEntry(e *config.Entry, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value = e.Name, configValue(e.Value, e.Null, e.Sensitive)
	out.ReadOnly, out.IsSensitive = e.ReadOnly, e.Sensitive
	out.Source, out.IsDefault = kmsg.ConfigSource(e.Source), e.Source == config.SourceDefault
	out.ConfigType = kmsg.ConfigType(e.Type)
	if req.IncludeDocumentation {
		out.Documentation = ptr(e.Doc)
	}
	if !req.IncludeSynonyms {
		return out
	}
	for _, syn := range e.Synonyms {
		s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		s.Name, s.Value, s.Source = syn.Name, configValue(syn.Value, syn.Null, e.Sensitive), kmsg.ConfigSource(syn.Source)
		out.ConfigSynonyms = append(out.ConfigSynonyms, s)
	}
	return out
}

// configValue is null for what has no value and for what must not be seen.
func configValue(v string, null, sensitive bool) *string {
	if null || sensitive {
		return nil
	}
	return &v
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
