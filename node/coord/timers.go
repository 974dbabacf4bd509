package coord

import (
	"seedlog/clock"
	"seedlog/node/group"
	"seedlog/wheel"
)

// timers are the deadlines of one shard, on a timing wheel, each under its key.
type timers struct {
	wheel *wheel.Wheel[group.TimerKey]
	byKey map[group.TimerKey]*wheel.Entry[group.TimerKey]
	free  []*wheel.Entry[group.TimerKey]
}

func (ts *timers) init(now clock.Instant) {
	ts.wheel = wheel.New[group.TimerKey](int64(now))
	ts.byKey = map[group.TimerKey]*wheel.Entry[group.TimerKey]{}
}

// set makes the key's timer, moves it, or with Never cancels it.
func (ts *timers) set(k group.TimerKey, at clock.Instant) {
	e := ts.byKey[k]
	if at == clock.Never {
		if e != nil {
			ts.wheel.Cancel(e)
			ts.drop(e)
		}
		return
	}
	if e == nil {
		e = ts.take()
		e.Value = k
		ts.byKey[k] = e
	}
	ts.wheel.Add(e, int64(at))
}

func (ts *timers) take() *wheel.Entry[group.TimerKey] {
	if n := len(ts.free); n > 0 {
		e := ts.free[n-1]
		ts.free = ts.free[:n-1]
		return e
	}
	return new(wheel.Entry[group.TimerKey])
}

func (ts *timers) drop(e *wheel.Entry[group.TimerKey]) {
	delete(ts.byKey, e.Value)
	e.Value = group.TimerKey{}
	if len(ts.free) < 1024 {
		ts.free = append(ts.free, e)
	}
}

// due takes the timers out that have come by now.
func (ts *timers) due(now clock.Instant) (keys []group.TimerKey) {
	ts.wheel.Advance(int64(now))
	for e := ts.wheel.Pop(); e != nil; e = ts.wheel.Pop() {
		keys = append(keys, e.Value)
		ts.drop(e)
	}
	return keys
}

// next is when to look again, or Never.
func (ts *timers) next() clock.Instant {
	at, ok := ts.wheel.NextExpiry()
	if !ok {
		return clock.Never
	}
	return clock.Instant(at)
}
