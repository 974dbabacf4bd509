package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Cluster is what makes a node a member of a cluster: its roles, and where the others are.
type Cluster struct {
	// IsBroker and IsController are process.roles; one of them at least is set.
	IsBroker, IsController bool
	// ControllerListeners are the names of controller.listener.names. They are empty only on
	// a node that is a quorum by itself and needs no controller listener.
	ControllerListeners []string
	// InterBrokerListener is the listener that brokers fetch from each other through.
	InterBrokerListener string
	// Voters are the static voters of controller.quorum.voters (kraft.version 0).
	Voters []Voter
	// BootstrapServers are where the quorum can be found, as "host:port".
	BootstrapServers []string
}

// RuleError is settings that do not go together, in Kafka's words.
type RuleError struct{ Why string }

func (e *RuleError) Error() string { return e.Why }

func rulef(format string, args ...any) error { return &RuleError{fmt.Sprintf(format, args...)} }

// Voter is one static voter.
type Voter struct {
	ID   int32
	Host string
	Port int32
}

// Addr is "host:port".
func (v Voter) Addr() string { return v.Host + ":" + strconv.Itoa(int(v.Port)) }

// IsControllerListener reports whether the listener is one of the controller's.
func (c *Config) IsControllerListener(name string) bool {
	return slices.Contains(c.ControllerListeners, name)
}

// Alone reports whether nothing names other nodes: a broker and controller that is a quorum
// of one and has no controller listener.
func (c *Config) Alone() bool {
	return len(c.ControllerListeners) == 0 && len(c.Voters) == 0 && len(c.BootstrapServers) == 0
}

// resolveCluster reads roles and quorum, before the listeners.
func (c *Config) resolveCluster() error {
	roles := SplitList(c.text("process.roles"))
	for i, r := range roles {
		if slices.Contains(roles[:i], r) {
			return rulef("Duplicate role names found in `process.roles`: %s", c.text("process.roles"))
		}
	}
	c.IsBroker, c.IsController = slices.Contains(roles, "broker"), slices.Contains(roles, "controller")
	c.ControllerListeners = nil
	for _, n := range SplitList(c.text("controller.listener.names")) {
		c.ControllerListeners = append(c.ControllerListeners, strings.ToUpper(n))
	}
	var err error
	if c.Voters, err = parseVoters(c.text("controller.quorum.voters")); err != nil {
		return err
	}
	c.BootstrapServers, err = parseServers(c.text("controller.quorum.bootstrap.servers"))
	return err
}

func parseVoters(text string) ([]Voter, error) {
	const form = "Each entry should be in the form `{id}@{host}:{port}`."
	var out []Voter
	for _, e := range SplitList(text) {
		idText, addr, ok := strings.Cut(e, "@")
		if !ok || strings.Contains(addr, "@") {
			return nil, rulef("Invalid configuration value for controller.quorum.voters. %s", form)
		}
		id, err := strconv.ParseInt(strings.TrimSpace(idText), 10, 32)
		if err != nil || id < 0 {
			return nil, rulef("Failed to parse voter ID as an integer from %s", strings.TrimSpace(idText))
		}
		host, port, what := splitHostPort(addr)
		if what != "" {
			return nil, rulef("Failed to parse host %s from entry %s for the configuration controller.quorum.voters. %s", what, e, form)
		}
		if host == "0.0.0.0" {
			return nil, rulef("Host string (%s) is not routeable", host)
		}
		for _, v := range out {
			if int64(v.ID) == id {
				return nil, rulef("controller.quorum.voters names the voter %d twice", id)
			}
		}
		out = append(out, Voter{ID: int32(id), Host: host, Port: port})
	}
	return out, nil
}

func parseServers(text string) ([]string, error) {
	var out []string
	for _, e := range SplitList(text) {
		host, port, what := splitHostPort(e)
		if what != "" {
			return nil, rulef("Failed to parse host %s from %s for the configuration controller.quorum.bootstrap.servers. "+
				"Each entry should be in the form \"{host}:{port}\"", what, e)
		}
		out = append(out, Voter{Host: host, Port: port}.Addr())
	}
	return out, nil
}

// splitHostPort splits "host:port"; what says which half is wrong, or is empty. An IPv6
// address stands in brackets.
func splitHostPort(addr string) (host string, port int32, what string) {
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 {
		return "", 0, "port"
	}
	host = addr[:colon]
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if !ok || strings.Count(inner, ":") < 2 || strings.Trim(inner, "0123456789abcdefABCDEF:.%") != "" {
			return "", 0, "name"
		}
	} else if host == "" || strings.ContainsAny(host, ":/@ []") {
		return "", 0, "name"
	}
	n, err := strconv.ParseUint(addr[colon+1:], 10, 16)
	if err != nil {
		return "", 0, "port"
	}
	return host, int32(n), ""
}

// checkCluster checks the listeners against the roles, in Kafka's words.
func (c *Config) checkCluster() error {
	_, _, named := c.lookup("node.id")
	if _, _, old := c.lookup("broker.id"); !named && !old && !c.Alone() {
		return rulef("Missing configuration `node.id` which is required when `process.roles` is defined (i.e. when running in KRaft mode).")
	}
	if len(c.Voters) == 0 && len(c.BootstrapServers) == 0 && !(c.IsBroker && c.IsController) && !(c.IsController && len(c.ControllerListeners) > 0) {
		return rulef("If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap controllers or controller.quorum.voters must contain a parseable set of controllers.")
	}
	if c.IsController {
		if err := c.checkController(); err != nil {
			return err
		}
	} else if err := c.checkBrokerOnly(); err != nil {
		return err
	}
	if c.IsBroker {
		return c.checkBrokerListeners()
	}
	return c.checkAdvertised()
}

func (c *Config) checkController() error {
	if len(c.Voters) > 0 && !c.isVoter() {
		return rulef("If process.roles contains the 'controller' role, the node id %d must be included in the set of voters controller.quorum.voters=%s", c.NodeID, c.voterSet())
	}
	if c.Alone() && c.IsBroker {
		return nil
	}
	if len(c.ControllerListeners) == 0 {
		return rulef("controller.listener.names must contain at least one value appearing in the 'listeners' configuration when running the KRaft controller role")
	}
	for _, n := range c.ControllerListeners {
		if !c.listens(n) {
			return rulef("controller.listener.names must only contain values appearing in the 'listeners' configuration when running the KRaft controller role")
		}
	}
	if !c.IsBroker && len(c.ControllerListeners) != len(c.Listeners) {
		return rulef("The listeners config must only contain KRaft controller listeners from controller.listener.names when process.roles=controller")
	}
	return nil
}

func (c *Config) checkBrokerOnly() error {
	if c.isVoter() {
		return rulef("If process.roles contains just the 'broker' role, the node id %d must not be included in the set of voters controller.quorum.voters=%s", c.NodeID, c.voterSet())
	}
	if len(c.ControllerListeners) == 0 {
		return rulef("controller.listener.names must contain at least one value when running KRaft with just the broker role")
	}
	if slices.ContainsFunc(c.ControllerListeners, c.listens) {
		return rulef("controller.listener.names must not contain a value appearing in the 'listeners' configuration when running KRaft with just the broker role")
	}
	return nil
}

// checkBrokerListeners checks what clients and brokers connect to, and finds the listener of
// the brokers.
func (c *Config) checkBrokerListeners() error {
	var names, own []string
	for _, l := range c.AdvertisedBrokers() {
		names = append(names, l.Name)
	}
	for _, l := range c.Listeners {
		own = append(own, l.Name)
	}
	if len(names) == 0 {
		return rulef("There must be at least one broker advertised listener. Perhaps all listeners appear in controller.listener.names?")
	}
	c.InterBrokerListener = strings.ToUpper(c.text("inter.broker.listener.name"))
	if c.InterBrokerListener == "" {
		c.InterBrokerListener = names[0]
	}
	if !slices.Contains(names, c.InterBrokerListener) {
		return rulef("inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based on currently configured listeners are %s", strings.Join(names, ","))
	}
	for _, n := range names {
		if !slices.Contains(own, n) {
			return rulef("advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found %s. The valid options based on the current configuration are %s", strings.Join(names, ","), strings.Join(own, ","))
		}
	}
	return c.checkAdvertised()
}

// checkAdvertised refuses what nobody can connect to. A node that is alone may listen everywhere
// and advertise nothing: its clients are on its machine. So may a controller, for the voters say
// where it is.
func (c *Config) checkAdvertised() error {
	told := c.Advertised
	if !c.Alone() {
		told = slices.Concat(told, c.AdvertisedBrokers())
	}
	for _, l := range told {
		if l.Host == "0.0.0.0" {
			return rulef("advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.")
		}
	}
	return nil
}

// AdvertisedBrokers is what clients and other brokers connect to: advertised.listeners, or
// the listeners, without the controller's. Hosts may be empty and ports zero.
func (c *Config) AdvertisedBrokers() []Listener {
	list := c.Advertised
	if len(list) == 0 {
		list = c.Listeners
	}
	var out []Listener
	for _, l := range list {
		if !c.IsControllerListener(l.Name) {
			out = append(out, l)
		}
	}
	return out
}

// AdvertisedControllers is what the members of the quorum connect to, in the order of
// controller.listener.names. The first of these is where controller.quorum.voters says that this
// node is, unless advertised.listeners names it: a listener says what it binds, and no more.
func (c *Config) AdvertisedControllers() []Listener {
	var out []Listener
	for at, n := range c.ControllerListeners {
		named := func(l Listener) bool { return l.Name == n }
		if i := slices.IndexFunc(c.Advertised, named); i >= 0 {
			out = append(out, c.Advertised[i])
		} else if i := slices.IndexFunc(c.Listeners, named); i >= 0 {
			l := c.Listeners[i]
			if v := slices.IndexFunc(c.Voters, c.isSelf); at == 0 && v >= 0 {
				l.Host, l.Port = strings.Trim(c.Voters[v].Host, "[]"), c.Voters[v].Port
			}
			out = append(out, l)
		}
	}
	return out
}

func (c *Config) listens(name string) bool {
	return slices.ContainsFunc(c.Listeners, func(l Listener) bool { return l.Name == name })
}

func (c *Config) isSelf(v Voter) bool { return v.ID == c.NodeID }

func (c *Config) isVoter() bool { return slices.ContainsFunc(c.Voters, c.isSelf) }

func (c *Config) voterSet() string {
	var ids []string
	for _, v := range c.Voters {
		ids = append(ids, strconv.Itoa(int(v.ID)))
	}
	return "Set(" + strings.Join(ids, ", ") + ")"
}
