package api

// ListConfigResources: which resources can have a configuration.
//
//	0  client metrics only     1  any resource types; none given is all
//
// Client metrics and groups are listed where a configuration is set on them; topics and
// brokers always.

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/meta"
)

func (s *Service) listConfigResources(t *task.T, r *conn.Request, req *kmsg.ListConfigResourcesRequest) kmsg.Response {
	image := s.Image()
	resp := kmsg.NewPtrListConfigResourcesResponse()
	kinds := []meta.ResourceType{meta.TopicResource, meta.BrokerResource, meta.BrokerLoggerResource, meta.ClientMetricsResource, meta.GroupResource}
	wanted := []int8{int8(meta.ClientMetricsResource)}
	if r.Version >= 1 {
		wanted = req.ResourceTypes
	}
	for _, w := range wanted {
		if !slices.Contains(kinds, meta.ResourceType(w)) {
			resp.ErrorCode = kerr.UnsupportedVersion.Code
			return resp
		}
	}
	for _, kind := range kinds {
		if len(wanted) > 0 && !slices.Contains(wanted, int8(kind)) {
			continue
		}
		for _, name := range resourceNames(image, kind) {
			out := kmsg.NewListConfigResourcesResponseConfigResource()
			out.Name, out.Type = name, int8(kind)
			resp.ConfigResources = append(resp.ConfigResources, out)
		}
	}
	return resp
}

func resourceNames(image *meta.Image, kind meta.ResourceType) []string {
	var names []string
	switch kind {
	case meta.TopicResource:
		for topic := range image.Topics() {
			names = append(names, topic.Name)
		}
	case meta.BrokerResource, meta.BrokerLoggerResource:
		for b := range image.Brokers() {
			names = append(names, decimal(int64(b.ID)))
		}
	default:
		for r := range image.Configs() {
			if r.Type == kind {
				names = append(names, r.Name)
			}
		}
	}
	return names
}
