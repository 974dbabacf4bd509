package api

import (
	"math/rand/v2"
	"slices"
	"testing"

	"seedlog/clock/live"
	"seedlog/node/config"
)

func serviceOf(t *testing.T, role Role) *Service {
	t.Helper()
	cfg, _, err := config.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	return New(Deps{
		RT: live.New(live.Options{}), Config: func() *config.Config { return cfg },
		Rand: rand.New(rand.NewPCG(1, 2)), DecodeBytesMax: 1 << 20,
	}, role)
}

// What is listed on a listener is served there, and nothing else is: a key of the other
// listeners is as unknown as one that does not exist.
func TestEachListenerServesItsOwnKeys(t *testing.T) {
	broker, controller := serviceOf(t, Broker), serviceOf(t, Controller)
	for _, e := range table() {
		for _, c := range []struct {
			s    *Service
			role Role
		}{{broker, Broker}, {controller, Controller}} {
			want := e.at&c.role != 0
			if got, _ := c.s.Supports(e.key, e.max); got != want {
				t.Errorf("key %d on %d: served %v, want %v", e.key, c.role, got, want)
			}
			if c.s.entry(e.key) == nil == want {
				t.Errorf("key %d on %d: listed %v, want %v", e.key, c.role, !want, want)
			}
		}
	}
	onBoth := []int16{1, 18, 19, 20, 32, 33, 37, 43, 44, 45, 46, 49, 55, 57, 60, 64, 80, 81}
	onControllers := []int16{52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82}
	for _, e := range table() {
		want := Broker
		switch {
		case slices.Contains(onControllers, e.key):
			want = Controller
		case slices.Contains(onBoth, e.key):
			want = both
		}
		if e.at != want && !(e.key == 1 && e.at == Broker) {
			t.Errorf("key %d is served at %d, want %d", e.key, e.at, want)
		}
	}
}
