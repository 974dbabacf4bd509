// Package links is the network between the processes of a cluster on one machine, with a
// hand on every direction of every pair.
//
// There are two of them:
//
//	namespaces   node 1 [netns, tun] --.                .-- [tun, netns] node 3
//	                                    >-- [Switch] --<
//	             node 2 [netns, tun] --'                '-- [tun] clients (this process)
//
//	relay        peer or client --> 127.0.0.1:relay of node 2 [Relay] --> 127.0.0.1:node 2
//
// Namespaces are the honest one: each node has a network of its own in the kernel, and the
// switch forwards, holds or drops its IP packets, so that TCP's timers, retransmissions and
// half-open connections are the real ones. They need the right to make network namespaces
// and /dev/net/tun. The relay needs nothing: everybody is told to connect to a relay in front
// of each node, which finds out from the kernel's tables whose socket dialled it and then
// holds bytes back. A relay accepts a connection even where the path is cut; what is sent into
// it waits.
//
// What a pair may do at the moment is a [Rule] of its own for each direction ([Rules]). Which
// rules there are and when is the caller's: nothing here is drawn but which packet is lost.
package links

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Clients is the place of this process and its clients; nodes have the places 1, 2, ...
const Clients = 0

// Rule is what happens to what goes from one place to another.
type Rule struct {
	// Cut: nothing arrives.
	Cut bool
	// Delay is how much later it arrives.
	Delay time.Duration
	// Loss is how many packets of 1,000 are lost. A relay, which has bytes, loses none.
	Loss int
}

// Rules are the rules of all directions. They are safe for concurrent use.
type Rules struct {
	mu      sync.Mutex
	n       int
	rules   []Rule
	rng     *rand.Rand
	changed chan struct{} // closed at the next change
}

// NewRules returns rules for so many nodes and the clients: all is let through. rng draws
// which packets are lost.
func NewRules(nodes int, rng *rand.Rand) *Rules {
	return &Rules{n: nodes + 1, rules: make([]Rule, (nodes+1)*(nodes+1)), rng: rng, changed: make(chan struct{})}
}

// Set sets the rule of one direction.
func (r *Rules) Set(from, to int, rule Rule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules[from*r.n+to] = rule
	r.moved()
}

// Clear lets everything through again.
func (r *Rules) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.rules)
	r.moved()
}

func (r *Rules) moved() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Get is the rule of one direction, and a channel that is closed when any rule changes.
func (r *Rules) Get(from, to int) (Rule, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rules[from*r.n+to], r.changed
}

// packet says what becomes of one packet.
func (r *Rules) packet(from, to int) (pass bool, delay time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rule := r.rules[from*r.n+to]
	if rule.Cut || rule.Loss > 0 && r.rng.IntN(1000) < rule.Loss {
		return false, 0
	}
	return true, rule.Delay
}
