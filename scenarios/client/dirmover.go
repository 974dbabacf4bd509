package client

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
)

// DirMover moves replicas between the directories of their brokers while the cluster works, and
// takes that back by moving them on. Nothing that it asks for may lose or change a record.
type DirMover struct {
	Env
	Topics  []*Topic
	Brokers []string // addresses
	Dirs    []string // that every broker has
	Ops     int
	Pace    time.Duration
	// Did counts what was accepted.
	Did func(what string, effective bool)
}

// Run works until the budget is spent. A broker that is down is left alone.
func (m *DirMover) Run(t *task.T) {
	for ; m.Ops > 0 && !m.Enough() && !t.Stopping(); m.Ops-- {
		t.Sleep(t.Now().Add(time.Duration(m.Rand.Int64N(2 * int64(m.Pace)))))
		conn, err := Dial(t, m.Net, m.Brokers[m.Rand.IntN(len(m.Brokers))], m.Name, m.deadline(t))
		if err != nil {
			continue
		}
		conn.broken = func(err error) { m.Rec.Failf("I30", m.Name, "%v", err) }
		m.one(t, conn)
		conn.Close()
	}
}

// refusals are the codes that a broker may refuse a move with: it has no such replica, or not
// yet, or one of its directories failed.
var refusals = []int16{0, kerr.ReplicaNotAvailable.Code, kerr.UnknownTopicOrPartition.Code, kerr.KafkaStorageError.Code}

func (m *DirMover) one(t *task.T, conn *Conn) {
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	req.Version = int16(1 + m.Rand.IntN(2))
	topic := m.Topics[m.Rand.IntN(len(m.Topics))]
	rt := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	rt.Topic, rt.Partitions = topic.Name, []int32{m.Rand.Int32N(topic.Partitions)}
	d := kmsg.NewAlterReplicaLogDirsRequestDir()
	d.Dir, d.Topics = m.Dirs[m.Rand.IntN(len(m.Dirs))], append(d.Topics, rt)
	req.Dirs = append(req.Dirs, d)
	resp, err := conn.Call(t, req, m.deadline(t))
	if err != nil {
		return
	}
	r := resp.(*kmsg.AlterReplicaLogDirsResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		m.Rec.Failf("codes", m.Name, "AlterReplicaLogDirs of one partition is answered with %+v", r)
		return
	}
	code := r.Topics[0].Partitions[0].ErrorCode
	if !slices.Contains(refusals, code) {
		m.Rec.Failf("codes", m.Name, "AlterReplicaLogDirs is answered with %s", CodeName(code))
	}
	if m.Did != nil {
		m.Did("directory-move", code == 0)
	}
}
