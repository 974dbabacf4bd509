package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
)

// visibleMaxMs is how long a change that is committed may take to reach this broker's own
// replicas before the client is answered without waiting for that.
const visibleMaxMs = 5000

// propose has the controller decide req, waits until the change is committed, and then
// until this broker has seen it, so that the client's next request finds what it created.
func (s *Service) propose(t *task.T, req kmsg.Request, timeoutMs int32) (kmsg.Response, error) {
	resp, offset, err := s.Control.Propose(t, req, t.Now().Add(millis(int64(timeoutMs))))
	if err != nil {
		return nil, err
	}
	if offset >= 0 {
		s.Quorum.WaitPublished(t, offset, t.Now().Add(millis(visibleMaxMs)))
	}
	return resp, nil
}
