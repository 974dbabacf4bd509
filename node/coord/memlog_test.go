package coord

import (
	"errors"
	"time"

	"seedlog/clock/task"
	"seedlog/storage/record"
)

var errGone = errors.New("leadership is gone")

// memLog is a partition in memory whose high watermark, errors and reads a test moves.
type memLog struct {
	rt      task.Runtime
	mu      task.Mutex
	batches [][]byte
	bases   []int64
	end     int64
	hw      int64
	held    bool
	stalled bool // nothing is read
	stuck   bool // nothing is appended
	gone    bool
	next    error // of the next append
	wakes   []func()
}

func newMemLog(rt task.Runtime) *memLog {
	l := &memLog{rt: rt}
	l.mu.Init(rt, "test.memLog")
	return l
}

func (l *memLog) Append(t *task.T, batch []byte) (int64, error) {
	l.mu.Lock()
	err := l.next
	l.next = nil
	l.mu.Unlock()
	l.while(t, &l.stuck)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.gone:
		return 0, errGone
	case err != nil:
		return 0, err
	}
	return l.add(append([]byte(nil), batch...)), nil
}

// while waits until what holds the log up is over, or the task stops.
func (l *memLog) while(t *task.T, hindrance *bool) {
	for {
		l.mu.Lock()
		on := *hindrance
		l.mu.Unlock()
		if !on || !t.Sleep(t.Now().Add(time.Millisecond)) {
			return
		}
	}
}

func (l *memLog) add(batch []byte) int64 {
	base := l.end
	record.Stamp(batch, base, 1)
	h, err := record.ParseHeader(batch)
	if err != nil {
		panic(err)
	}
	l.batches, l.bases = append(l.batches, batch), append(l.bases, base)
	l.end = h.NextOffset()
	if !l.held {
		l.hw = l.end
	}
	return base
}

func (l *memLog) put(o record.Options, rs ...record.Record) {
	b, err := record.AppendBatch(nil, o, nil, rs...)
	if err != nil {
		panic(err)
	}
	l.putRaw(b)
}

func (l *memLog) putRaw(batch []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(batch)
}

func (l *memLog) Bounds() (int64, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 0, l.end
}

func (l *memLog) Read(t *task.T, offset int64, max int32) ([]byte, error) {
	l.while(t, &l.stalled)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, b := range l.batches {
		if i+1 == len(l.bases) || l.bases[i+1] > offset {
			return b, nil
		}
	}
	return nil, nil
}

func (l *memLog) Committed(next int64) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return false, errGone
	}
	return l.hw >= next, nil
}

func (l *memLog) Watch(next int64, wake func()) {
	l.mu.Lock()
	now := l.gone || l.hw >= next
	if !now {
		l.wakes = append(l.wakes, wake)
	}
	l.mu.Unlock()
	if now {
		wake()
	}
}

// hold keeps the high watermark where it is, or lets it go.
func (l *memLog) hold(on bool) {
	l.change(func() {
		if l.held = on; !on {
			l.hw = l.end
		}
	})
}

// lose ends the leadership, and what is not committed is cut off.
func (l *memLog) lose() { l.change(func() { l.gone = true }) }

func (l *memLog) stall(on bool) { l.change(func() { l.stalled = on }) }

func (l *memLog) stick(on bool) { l.change(func() { l.stuck = on }) }

// refuse has the next append that begins fail.
func (l *memLog) refuse(err error) { l.change(func() { l.next = err }) }

func (l *memLog) change(fn func()) {
	l.mu.Lock()
	fn()
	wakes := l.wakes
	l.wakes = nil
	l.mu.Unlock()
	for _, w := range wakes {
		w()
	}
}
