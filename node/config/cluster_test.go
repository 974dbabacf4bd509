package config

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// with is props and more of them.
func with(props map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for k, v := range props {
		out[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func without(props map[string]string, name string) map[string]string {
	out := with(props)
	delete(out, name)
	return out
}

// The rows are a combined node, a broker and a controller of one cluster.
func combined() map[string]string {
	return map[string]string{
		"node.id": "1", "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER",
		"listeners":                "PLAINTEXT://:9092,CONTROLLER://:9093",
		"controller.quorum.voters": "1@one:9093,2@two:9093, 3@[::1]:9093",
	}
}

func brokerOnly() map[string]string {
	return with(combined(), "node.id", "4", "process.roles", "broker", "listeners", "PLAINTEXT://:9092")
}

func controllerOnly() map[string]string {
	return with(combined(), "node.id", "2", "process.roles", "controller", "listeners", "CONTROLLER://:9093")
}

func TestRolesAndListeners(t *testing.T) {
	c := mustParse(t, with(combined(), "advertised.listeners", "PLAINTEXT://b1:19092,CONTROLLER://c1:19093"))
	want := Cluster{
		IsBroker: true, IsController: true, ControllerListeners: []string{"CONTROLLER"}, InterBrokerListener: "PLAINTEXT",
		Voters: []Voter{{1, "one", 9093}, {2, "two", 9093}, {3, "[::1]", 9093}},
	}
	if diff := cmp.Diff(want, c.Cluster); diff != "" {
		t.Error(diff)
	}
	if got := c.AdvertisedBrokers(); !slices.Equal(got, []Listener{{"PLAINTEXT", "b1", 19092}}) {
		t.Errorf("brokers: %v", got)
	}
	if got := c.AdvertisedControllers(); !slices.Equal(got, []Listener{{"CONTROLLER", "c1", 19093}}) {
		t.Errorf("controllers: %v", got)
	}
	if c.Voters[2].Addr() != "[::1]:9093" || c.Alone() {
		t.Error(c.Voters)
	}
	for id, want := range map[string]Listener{"1": {"CONTROLLER", "one", 9093}, "3": {"CONTROLLER", "::1", 9093}} {
		for _, own := range []string{"CONTROLLER://:9093", "CONTROLLER://0.0.0.0:9093", "CONTROLLER://10.0.0.1:19093"} {
			v := mustParse(t, with(combined(), "node.id", id, "listeners", "PLAINTEXT://one:9092,"+own))
			if got := v.AdvertisedControllers(); !slices.Equal(got, []Listener{want}) {
				t.Errorf("%s of voter %s: %v", own, id, got)
			}
		}
	}
	d := mustParse(t, with(combined(), "listeners", "PLAINTEXT://one:1,CONTROLLER://0.0.0.0:2", "controller.quorum.voters", "", "controller.quorum.bootstrap.servers", "one:2"))
	if got := d.AdvertisedControllers(); len(got) != 1 || !got[0].Everywhere() {
		t.Errorf("controllers: %v", got)
	}
	b := mustParse(t, with(brokerOnly(), "listeners", "CLIENT://:9092,INTERNAL://:9094", "inter.broker.listener.name", "internal",
		"listener.security.protocol.map", "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"))
	if b.InterBrokerListener != "INTERNAL" || b.IsController || !b.IsBroker || b.AdvertisedControllers() != nil {
		t.Errorf("%+v", b.Cluster)
	}
	k := mustParse(t, with(controllerOnly(), "controller.quorum.voters", "", "controller.quorum.bootstrap.servers", "one:9093,two:9093"))
	if k.IsBroker || !k.IsController || !slices.Equal(k.BootstrapServers, []string{"one:9093", "two:9093"}) || k.AdvertisedBrokers() != nil {
		t.Errorf("%+v", k.Cluster)
	}
	if alone := mustParse(t, nil); !alone.Alone() || alone.InterBrokerListener != "PLAINTEXT" {
		t.Errorf("%+v", alone.Cluster)
	}
}

func TestWhatDoesNotGoTogetherIsRefusedInKafkasWords(t *testing.T) {
	const voterForm = " Each entry should be in the form `{id}@{host}:{port}`."
	for _, c := range []struct {
		props map[string]string
		want  string
	}{
		{without(combined(), "node.id"), "Missing configuration `node.id` which is required when `process.roles` is defined (i.e. when running in KRaft mode)."},
		{with(combined(), "node.id", "9"), "If process.roles contains the 'controller' role, the node id 9 must be included in the set of voters controller.quorum.voters=Set(1, 2, 3)"},
		{with(brokerOnly(), "node.id", "1"), "If process.roles contains just the 'broker' role, the node id 1 must not be included in the set of voters controller.quorum.voters=Set(1, 2, 3)"},
		{with(combined(), "controller.listener.names", "", "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"), "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when running the KRaft controller role"},
		{with(combined(), "controller.listener.names", "OTHER", "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OTHER:PLAINTEXT"), "controller.listener.names must only contain values appearing in the 'listeners' configuration when running the KRaft controller role"},
		{with(brokerOnly(), "controller.listener.names", ""), "controller.listener.names must contain at least one value when running KRaft with just the broker role"},
		{with(brokerOnly(), "listeners", "PLAINTEXT://:1,CONTROLLER://:2"), "controller.listener.names must not contain a value appearing in the 'listeners' configuration when running KRaft with just the broker role"},
		{with(controllerOnly(), "listeners", "PLAINTEXT://:1,CONTROLLER://:2"), "The listeners config must only contain KRaft controller listeners from controller.listener.names when process.roles=controller"},
		{with(brokerOnly(), "controller.quorum.voters", ""), "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap controllers or controller.quorum.voters must contain a parseable set of controllers."},
		{with(combined(), "controller.listener.names", "PLAINTEXT,CONTROLLER"), "There must be at least one broker advertised listener. Perhaps all listeners appear in controller.listener.names?"},
		{with(combined(), "inter.broker.listener.name", "CONTROLLER"), "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based on currently configured listeners are PLAINTEXT"},
		{with(combined(), "advertised.listeners", "PLAINTEXT://h:1,EXTERNAL://h:2"), "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found PLAINTEXT,EXTERNAL. The valid options based on the current configuration are PLAINTEXT,CONTROLLER"},
		{with(combined(), "advertised.listeners", "PLAINTEXT://0.0.0.0:1"), "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."},
		{with(combined(), "listeners", "PLAINTEXT://0.0.0.0:1,CONTROLLER://one:2"), "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."},
		{with(combined(), "advertised.listeners", "PLAINTEXT://one:1,CONTROLLER://0.0.0.0:2"), "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."},
		{with(combined(), "controller.quorum.voters", "1@one"), "Failed to parse host port from entry 1@one for the configuration controller.quorum.voters." + voterForm},
		{with(combined(), "controller.quorum.voters", "1@:9"), "Failed to parse host name from entry 1@:9 for the configuration controller.quorum.voters." + voterForm},
		{with(combined(), "controller.quorum.voters", "one:9"), "Invalid configuration value for controller.quorum.voters." + voterForm},
		{with(combined(), "controller.quorum.voters", "x@one:9"), "Failed to parse voter ID as an integer from x"},
		{with(combined(), "controller.quorum.voters", "1@0.0.0.0:9"), "Host string (0.0.0.0) is not routeable"},
		{with(combined(), "controller.quorum.voters", "1@a:9,1@b:9"), "controller.quorum.voters names the voter 1 twice"},
		{with(combined(), "controller.quorum.bootstrap.servers", "one:x"), "Failed to parse host port from one:x for the configuration controller.quorum.bootstrap.servers. Each entry should be in the form \"{host}:{port}\""},
		{with(combined(), "process.roles", "broker,broker"), "Duplicate role names found in `process.roles`: broker,broker"},
		{with(combined(), "process.roles", ""), "Invalid value  for configuration process.roles: List must not be empty"},
		{with(combined(), "replica.fetch.wait.max.ms", "40000"), "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket timeouts"},
		{with(combined(), "replica.lag.time.max.ms", "400"), "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent changes in ISR"},
		{with(combined(), "replica.selector.class", "mine"), "Invalid value mine for configuration replica.selector.class: String must be one of: " + leaderSelector + ", " + RackAwareSelector},
		{with(combined(), "controller.listener.names", "SASL_SSL", "listeners", "PLAINTEXT://:1,SASL_SSL://:2"), "listener SASL_SSL uses SASL_SSL: only PLAINTEXT listeners are served"},
		{with(combined(), "controller.listener.names", "ctl", "listeners", "SSL://:1,CTL://:2"), "listener SSL uses SSL: only PLAINTEXT listeners are served"},
		{with(brokerOnly(), "controller.listener.names", "ssl"), "listener SSL uses SSL: only PLAINTEXT listeners are served"},
		{with(combined(), "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"), "listener CONTROLLER uses SSL: only PLAINTEXT listeners are served"},
	} {
		if _, _, err := Parse(c.props); err == nil || err.Error() != c.want {
			t.Errorf("%v:\n got %v\nwant %s", c.props, err, c.want)
		}
	}
}

func TestReplicationSettings(t *testing.T) {
	c := mustParse(t, nil)
	want := Replication{
		ReplicaLagTimeMaxMs: 30000, ReplicaFetchMaxBytes: 1 << 20, ReplicaFetchResponseMaxBytes: 10 << 20, ReplicaFetchWaitMaxMs: 500,
		ReplicaFetchMinBytes: 1, ReplicaFetchBackoffMs: 1000, ReplicaSocketTimeoutMs: 30000, NumReplicaFetchers: 1,
		AutoLeaderRebalance: true, LeaderImbalanceCheckMs: 300_000, LeaderImbalancePercentage: 10, UncleanElectionIntervalMs: 300_000,
		ControlledShutdown: true, InitialRegistrationTimeoutMs: 60000, RequestTimeoutMs: 30000,
		LeaderThrottledRate: Unthrottled, FollowerThrottledRate: Unthrottled, AlterLogDirsThrottledRate: Unthrottled,
	}
	if diff := cmp.Diff(want, c.Replication); diff != "" {
		t.Error(diff)
	}
	d := c.WithDynamic(map[string]string{"leader.replication.throttled.rate": "1000"}, nil)
	if d.LeaderThrottledRate != 1000 || d.FollowerThrottledRate != Unthrottled {
		t.Errorf("%+v", d.Replication)
	}
	if !mustParse(t, map[string]string{"replica.selector.class": RackAwareSelector}).RackAware {
		t.Error("not rack aware")
	}
}

func FuzzVoters(f *testing.F) {
	f.Add("1@h:9,2@[::1]:8", "h:9")
	f.Add("@:", "[:]:")
	f.Fuzz(func(t *testing.T, voters, servers string) {
		vs, err := parseVoters(voters)
		for _, v := range vs {
			if host, port, what := splitHostPort(v.Addr()); what != "" || host != v.Host || port != v.Port || err != nil {
				t.Errorf("%v does not parse again: %v", v, err)
			}
		}
		_, _ = parseServers(servers)
	})
}
