package trace

import "strconv"

// The kinds. New ones go at the end of their group, which leaves room: a kind's number is
// hashed, so renumbering one changes the hash of every seed.
const (
	// The scheduler's: a is the task, unless it says otherwise.
	Note   Kind = iota // a text from whoever runs the world
	Seed               // a: the seed
	Start              // a: task; text: its name
	Pick               // a: task; b: the draw that chose it; c: simulated time
	End                // a task returned
	Call               // a: sequence number of a callback that ran; c: simulated time
	Kill               // a: incarnation; text: its name
	Pause              // a: incarnation
	Resume             // a: incarnation
	Jump               // a: incarnation; b: milliseconds its wall clock jumped by
	Boot               // a: incarnation; text: its name
	Draw               // a: stream; b: the number drawn
	Stream             // a: stream; text: its name
	Hold               // a: task held back; b: nanoseconds
	Policy             // a: policy; b: its victim or change point
)

// The network's.
const (
	NetListen Kind = iota + 32
	NetDial
	NetAccept
	NetWrite
	NetDeliver
	NetRead
	NetClose
	NetReset
	NetFault
)

// The disk's.
const (
	DiskOpen Kind = iota + 64
	DiskRead
	DiskWrite
	DiskTruncate
	DiskSync
	DiskSyncDir
	DiskRename
	DiskRemove
	DiskMkdir
	DiskPunch
	DiskList
	DiskLock
	DiskClose
	DiskCrash
	DiskFault
)

// The world's.
const (
	Fault      Kind = iota + 96 // a fault was injected; text: which
	NodeEvent                   // an event of package node/event; text: its name
	NodeField                   // one of its numbers
	OpStart                     // a client operation begins
	OpEnd                       // and ends
	Check                       // a checker ran
	PhaseStart                  // text: the phase
)

var names = [...]string{
	Note: "note", Seed: "seed", Start: "start", Pick: "pick", End: "end", Call: "call",
	Kill: "kill", Pause: "pause", Resume: "resume", Jump: "jump", Boot: "boot", Draw: "draw",
	Stream: "stream", Hold: "hold", Policy: "policy",
	NetListen: "net-listen", NetDial: "net-dial", NetAccept: "net-accept", NetWrite: "net-write",
	NetDeliver: "net-deliver", NetRead: "net-read", NetClose: "net-close", NetReset: "net-reset",
	NetFault: "net-fault",
	DiskOpen: "disk-open", DiskRead: "disk-read", DiskWrite: "disk-write",
	DiskTruncate: "disk-truncate", DiskSync: "disk-sync", DiskSyncDir: "disk-sync-dir",
	DiskRename: "disk-rename", DiskRemove: "disk-remove", DiskMkdir: "disk-mkdir",
	DiskPunch: "disk-punch", DiskList: "disk-list", DiskLock: "disk-lock",
	DiskClose: "disk-close", DiskCrash: "disk-crash", DiskFault: "disk-fault",
	Fault: "fault", NodeEvent: "node-event", NodeField: "node-field", OpStart: "op-start",
	OpEnd: "op-end", Check: "check", PhaseStart: "phase",
}

// String is the kind's name, or its number if it has none.
func (k Kind) String() string {
	if int(k) < len(names) && names[k] != "" {
		return names[k]
	}
	return "kind-" + strconv.Itoa(int(k))
}
