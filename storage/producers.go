package storage

import (
	"fmt"

	"seedlog/clock/task"
	"seedlog/storage/index"
	"seedlog/storage/producer"
	"seedlog/storage/record"
)

// checkProducer asks whether a batch that will get the base offset may be appended. A repeat
// comes back with the batch that was appended first.
func (l *Log) checkProducer(h *record.Header, one []byte, base int64, origin Origin) (producer.Batch, bool, error) {
	if !h.HasProducerID() {
		return producer.Batch{}, false, nil
	}
	from := producer.Client
	if origin != Client {
		from = producer.Coordinator
	}
	if h.IsControl() {
		m, ok, err := producer.ReadMarker(h, one, from)
		if err != nil || !ok {
			return producer.Batch{}, false, err
		}
		m.Offset = base
		l.mu.Lock()
		defer l.mu.Unlock()
		return producer.Batch{}, false, l.producers.CheckMarker(&m)
	}
	a := producer.FromHeader(h, base, from)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.Check(&a)
}

// applyProducer notes a batch that is in the file; h and one bear its offsets. Under the Gate.
func (l *Log) applyProducer(t *task.T, s *segment, h *record.Header, one []byte) error {
	l.mu.Lock()
	done, ok, err := l.producers.Replay(h, one)
	l.mu.Unlock()
	if err != nil {
		return l.failed(t, fmt.Errorf("producer state at offset %d: %w", h.BaseOffset, err))
	}
	if !ok || !done.Aborted {
		return nil
	}
	if err := l.addAborted(t, s, done); err != nil {
		return l.failed(t, err)
	}
	return nil
}

// addAborted writes an aborted transaction into the segment's transaction index.
func (l *Log) addAborted(t *task.T, s *segment, done producer.Completed) error {
	if _, err := s.loadTxns(t); err != nil {
		return err
	}
	if len(s.txns.list) == 0 { // the file may be new
		l.mu.Lock()
		l.namesDirty = true
		l.mu.Unlock()
	}
	return s.txns.add(t, s.files, &s.mu, index.Txn{
		ProducerID: done.ProducerID, FirstOffset: done.FirstOffset,
		LastOffset: done.LastOffset, LastStableOffset: done.LastStableOffset,
	})
}

// ProducerCount is how many producers the log remembers.
func (l *Log) ProducerCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.Len()
}

// Producers describes the producers, ascending by id (DescribeProducers).
func (l *Log) Producers() []producer.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.Entries()
}

// OngoingTxns are the open transactions, ascending by first offset.
func (l *Log) OngoingTxns() []producer.Txn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.Ongoing()
}

// ExpireProducers forgets producers idle for producer.id.expiration.ms and returns how many.
func (l *Log) ExpireProducers(nowMs int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.Expire(nowMs, l.cfg.ProducerExpirationMs)
}
