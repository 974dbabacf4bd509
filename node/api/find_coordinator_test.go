package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/node/config"
	"seedlog/node/conn"
	"seedlog/node/control"
	"seedlog/node/meta"
)

// nobodyDecides is a cluster without a controller.
type nobodyDecides struct{ asked int }

func (n *nobodyDecides) Propose(*task.T, kmsg.Request, clock.Instant) (kmsg.Response, int64, error) {
	n.asked++
	return nil, -1, control.ErrTimeout
}

// Each attempt to create __consumer_offsets may take seconds: a client that asks for the
// coordinators of a hundred groups waits for one.
func TestCoordinatorsOfManyGroupsTakeOneAttempt(t *testing.T) {
	rt := live.New(live.Options{})
	cfg, _, err := config.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	nobody := &nobodyDecides{}
	s := New(Deps{RT: rt, Config: func() *config.Config { return cfg }, Image: meta.Empty, Control: nobody}, Broker)
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKeys = 4, []string{"a", "b", "c"}
	live.Main(rt, func(t *task.T) {
		err = nil
		for _, c := range s.findCoordinator(t, &conn.Request{Version: 4}, req).(*kmsg.FindCoordinatorResponse).Coordinators {
			if c.ErrorCode != kerr.CoordinatorNotAvailable.Code {
				err = kerr.ErrorForCode(c.ErrorCode)
			}
		}
	})
	if err != nil || nobody.asked != 1 {
		t.Errorf("%d attempts, answered with %v", nobody.asked, err)
	}
	// Transactions have no coordinator: nothing is created for them.
	req.CoordinatorType = coordinatorTransaction
	live.Main(rt, func(t *task.T) { s.findCoordinator(t, &conn.Request{Version: 4}, req) })
	if nobody.asked != 1 {
		t.Errorf("%d attempts after transactional ids", nobody.asked)
	}
}
