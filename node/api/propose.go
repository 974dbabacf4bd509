package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/meta"
)

// visibleMaxMs is how long a change that is committed may take to reach this broker's own
// replicas before the client is answered without waiting for that.
const visibleMaxMs = 5000

// propose has the controller decide req, waits until the change is committed, and then
// until this broker has seen it, so that the client's next request finds what it created.
func (s *Service) propose(t *task.T, r *conn.Request, req kmsg.Request, timeoutMs int32) (kmsg.Response, error) {
	resp, offset, err := s.ask(t, r, req, t.Now().Add(millis(int64(timeoutMs))))
	if err != nil {
		return nil, err
	}
	until := t.Now().Add(millis(visibleMaxMs))
	if offset >= 0 {
		s.Quorum.WaitPublished(t, offset, until)
	} else {
		s.awaitEffect(t, func(image *meta.Image) bool { return visible(image, req, resp) }, until)
	}
	return resp, nil
}

// awaitEffect waits until this broker's metadata shows what another node decided. Where that
// ends in the log is not in the answer.
func (s *Service) awaitEffect(t *task.T, shows func(*meta.Image) bool, until clock.Instant) {
	for {
		image := s.Image()
		if shows(image) || s.Quorum.WaitPublished(t, image.Offset+1, until) != task.Woken {
			return
		}
	}
}

// visible reports whether the image has the topics and partitions that were answered to be
// created, and not those that were answered to be deleted. What else was decided is not
// waited for: nobody who asks for it next would get an error.
func visible(image *meta.Image, req kmsg.Request, resp kmsg.Response) bool {
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for i := range r.Topics {
			if r.Topics[i].ErrorCode == 0 && image.Topic(r.Topics[i].Topic) == nil && !req.(*kmsg.CreateTopicsRequest).ValidateOnly {
				return false
			}
		}
	case *kmsg.DeleteTopicsResponse:
		for i := range r.Topics {
			x := &r.Topics[i]
			if x.ErrorCode == 0 && x.Topic != nil && image.Topic(*x.Topic) != nil && (r.Version < 6 || image.Topic(*x.Topic).ID == x.TopicID) {
				return false
			}
		}
	case *kmsg.CreatePartitionsResponse:
		asked := req.(*kmsg.CreatePartitionsRequest)
		for i := range r.Topics {
			topic := image.Topic(r.Topics[i].Topic)
			if r.Topics[i].ErrorCode == 0 && topic != nil && !asked.ValidateOnly && len(topic.Partitions) < partitionsAsked(asked, topic.Name) {
				return false
			}
		}
	}
	return true
}

func partitionsAsked(req *kmsg.CreatePartitionsRequest, topic string) int {
	for i := range req.Topics {
		if req.Topics[i].Topic == topic {
			return int(req.Topics[i].Count)
		}
	}
	return 0
}
