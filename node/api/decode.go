package api

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/conn"
)

// A decoded request is larger than its frame: an empty element of two or three bytes
// becomes a struct of sixty, and one with a tag a map of four hundred; its answer may be as
// large again. These factors bound that from above, and the estimate is reserved before
// anything is decoded, until the answer is given. Keys whose answers are larger than that
// have a factor of their own in the table.
const (
	growthPlain    = 64
	growthFlexible = 128
)

var (
	errOverBudget = errors.New("request would decode to more memory than the budget has")
	errStopping   = errors.New("the broker is stopping")
	errLongText   = errors.New("a string is longer than 32767 bytes")
)

// decode reserves memory and decodes the body. held is to be released.
func (s *Service) decode(t *task.T, e *entry, r *conn.Request) (req kmsg.Request, held int64, err error) {
	if held, err = e.cost(r); err == nil {
		err = s.budget.reserve(t, held)
	}
	if err != nil {
		return nil, 0, err
	}
	req = kmsg.RequestForKey(r.Key)
	req.SetVersion(r.Version)
	if err := req.ReadFrom(r.Body); err != nil {
		s.budget.release(held)
		return nil, 0, fmt.Errorf("%s version %d does not decode: %w", kmsg.NameForKey(r.Key), r.Version, err)
	}
	return req, held, nil
}

// cost estimates what a request will take in memory, in bytes.
func (e *entry) cost(r *conn.Request) (int64, error) {
	if e.measure != nil {
		return e.measure(r.Body, r.Version)
	}
	growth := int64(growthPlain)
	if r.Version >= e.flexible {
		growth = growthFlexible
	}
	return int64(len(r.Body)) * max(growth, e.growth), nil
}

// budget is a number of bytes that requests being decoded share.
type budget struct {
	mu    task.Mutex
	free  int64
	total int64
	freed task.Signal
}

func (b *budget) init(rt task.Runtime, total int64) {
	b.mu.Init(rt, "api.budget")
	b.freed.Init(rt, "api.budget.freed")
	b.free, b.total = total, total
}

// reserve waits until n bytes are free. More than the total is refused.
func (b *budget) reserve(t *task.T, n int64) error {
	if n > b.total {
		return fmt.Errorf("%w: %d of %d bytes", errOverBudget, n, b.total)
	}
	for {
		seen := b.freed.Generation()
		b.mu.Lock()
		ok := b.free >= n
		if ok {
			b.free -= n
		}
		b.mu.Unlock()
		if ok {
			return nil
		}
		if b.freed.Wait(t, seen, clock.Never) == task.Stopping {
			return errStopping
		}
	}
}

func (b *budget) release(n int64) {
	b.mu.Lock()
	b.free += n
	b.mu.Unlock()
	b.freed.Raise()
}
