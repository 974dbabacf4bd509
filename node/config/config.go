package config

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"seedlog/node/meta"
)

// Config is the resolved settings of one broker. It is never changed: [Config.WithDynamic]
// returns another.
type Config struct {
	NodeID  int32
	Rack    string
	LogDirs []string
	// MetadataLogDir holds __cluster_metadata-0.
	MetadataLogDir string

	// Features are the levels that this node serves: those of the build, unless
	// internal.*.version.max make it an older one.
	Features meta.Levels

	Cluster
	Replication

	Listeners  []Listener
	Advertised []Listener

	NumPartitions            int32
	DefaultReplicationFactor int16
	AutoCreateTopics         bool
	DeleteTopics             bool

	NumRecoveryThreads           int
	RecoveryPointCheckpointMs    int64
	LogStartCheckpointMs         int64
	HighWatermarkCheckpointMs    int64
	RetentionCheckMs             int64
	MetadataSnapshotBytes        int64
	ControllerElectionTimeoutMs  int64
	ControllerFetchTimeoutMs     int64
	ControllerElectionBackoffMs  int64
	ControllerRequestTimeoutMs   int64
	ControllerRetryBackoffMs     int64
	BrokerHeartbeatMs            int64
	BrokerSessionTimeoutMs       int64
	ProducerIDExpirationMs       int64
	ProducerIDExpirationCheckMs  int64
	TransactionMaxTimeoutMs      int32
	OffsetsTopicPartitions       int32
	OffsetsTopicReplication      int16
	OffsetsTopicSegmentBytes     int32
	OffsetsRetentionMs           int64
	OffsetsRetentionCheckMs      int64
	OffsetMetadataMaxBytes       int32
	GroupInitialRebalanceDelayMs int64
	GroupMinSessionTimeoutMs     int32
	GroupMaxSessionTimeoutMs     int32
	GroupMaxSize                 int32

	QueuedMaxRequestBytes   int64
	SocketRequestMaxBytes   int32
	ConnectionsMaxIdleMs    int64
	MaxConnections          int32
	MaxConnectionsPerIP     int32
	FetchMaxBytes           int32
	FetchSessionSlots       int
	DescribePartitionsLimit int32

	static     map[string]string
	perBroker  map[string]string
	allBrokers map[string]string
}

// Listener is one NAME://host:port.
type Listener struct {
	Name string
	Host string // empty: every address; an IPv6 address stands here without brackets, as clients are told it
	Port int32
}

// Addr is "host:port"; an IPv6 address stands in brackets.
func (l Listener) Addr() string { return meta.Endpoint{Host: l.Host, Port: uint16(l.Port)}.Addr() }

// Everywhere reports whether the listener names no address that another could connect to.
func (l Listener) Everywhere() bool { return l.Host == "" || l.Host == "0.0.0.0" || l.Host == "::" }

func (l Listener) String() string { return l.Name + "://" + l.Addr() }

// Parse resolves properties. It returns the names it does not know, sorted, which are worth
// a warning, and an error that names the first bad value.
func Parse(props map[string]string) (c *Config, unknown []string, err error) {
	static := make(map[string]string, len(props))
	for _, k := range sortedKeys(props) {
		if brokerByName[k] == nil {
			unknown = append(unknown, k)
			continue
		}
		if err := CheckBroker(k, props[k]); err != nil {
			return nil, unknown, err
		}
		static[k] = strings.TrimSpace(props[k])
	}
	c = &Config{static: static}
	if err := c.resolve(); err != nil {
		return nil, unknown, err
	}
	return c, unknown, nil
}

// WithDynamic returns the settings under the broker overrides of the metadata image: those
// of this broker id and those of all brokers. Overrides that do not parse are ignored, for
// the controller has checked them and a broker must not fail on a newer one's value.
func (c *Config) WithDynamic(perBroker, allBrokers map[string]string) *Config {
	n := &Config{static: c.static, perBroker: valid(perBroker), allBrokers: valid(allBrokers)}
	if err := n.resolve(); err != nil {
		return c
	}
	return n
}

func valid(props map[string]string) map[string]string {
	out := make(map[string]string, len(props))
	for _, k := range sortedKeys(props) {
		if CheckBroker(k, props[k]) == nil {
			out[k] = strings.TrimSpace(props[k])
		}
	}
	return out
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m { //order: sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// lookup finds the value of a broker setting and the layer it comes from.
func (c *Config) lookup(name string) (string, Source, bool) {
	if v, ok := c.perBroker[name]; ok {
		return v, SourceDynamicBroker, true
	}
	if v, ok := c.allBrokers[name]; ok {
		return v, SourceDynamicDefault, true
	}
	if v, ok := c.static[name]; ok {
		return v, SourceStatic, true
	}
	return "", SourceDefault, false
}

// text is the value of a setting, or its default.
func (c *Config) text(name string) string {
	if v, _, ok := c.lookup(name); ok {
		return v
	}
	return brokerByName[name].Default
}

func (c *Config) num(name string) int64 {
	n, err := strconv.ParseInt(c.text(name), 10, 64)
	if err != nil {
		panic("config: " + name + " has no number: " + c.text(name))
	}
	return n
}

func (c *Config) flag(name string) bool { return strings.EqualFold(c.text(name), "true") }

func (c *Config) resolve() error {
	for _, step := range []func() error{c.resolveIdentity, c.resolveCluster, c.resolveListeners, c.checkCluster, c.resolveReplication} {
		if err := step(); err != nil {
			return err
		}
	}
	c.NumPartitions = int32(c.num("num.partitions"))
	c.DefaultReplicationFactor = int16(c.num("default.replication.factor"))
	c.AutoCreateTopics = c.flag("auto.create.topics.enable")
	c.DeleteTopics = c.flag("delete.topic.enable")

	c.NumRecoveryThreads = int(c.num("num.recovery.threads.per.data.dir"))
	c.RecoveryPointCheckpointMs = c.num("log.flush.offset.checkpoint.interval.ms")
	c.LogStartCheckpointMs = c.num("log.flush.start.offset.checkpoint.interval.ms")
	c.HighWatermarkCheckpointMs = c.num("replica.high.watermark.checkpoint.interval.ms")
	c.RetentionCheckMs = c.num("log.retention.check.interval.ms")
	c.MetadataSnapshotBytes = c.num("metadata.log.max.record.bytes.between.snapshots")
	c.ControllerElectionTimeoutMs = c.num("controller.quorum.election.timeout.ms")
	c.ControllerFetchTimeoutMs = c.num("controller.quorum.fetch.timeout.ms")
	c.ControllerElectionBackoffMs = c.num("controller.quorum.election.backoff.max.ms")
	c.ControllerRequestTimeoutMs = c.num("controller.quorum.request.timeout.ms")
	c.ControllerRetryBackoffMs = c.num("controller.quorum.retry.backoff.ms")
	c.BrokerHeartbeatMs = c.num("broker.heartbeat.interval.ms")
	c.BrokerSessionTimeoutMs = c.num("broker.session.timeout.ms")
	c.ProducerIDExpirationMs = c.num("producer.id.expiration.ms")
	c.ProducerIDExpirationCheckMs = c.num("producer.id.expiration.check.interval.ms")
	c.TransactionMaxTimeoutMs = int32(c.num("transaction.max.timeout.ms"))
	c.resolveGroups()
	c.resolveFeatures()

	c.QueuedMaxRequestBytes = c.num("queued.max.request.bytes")
	c.SocketRequestMaxBytes = int32(c.num("socket.request.max.bytes"))
	c.ConnectionsMaxIdleMs = c.num("connections.max.idle.ms")
	c.MaxConnections = int32(c.num("max.connections"))
	c.MaxConnectionsPerIP = int32(c.num("max.connections.per.ip"))
	c.FetchMaxBytes = int32(c.num("fetch.max.bytes"))
	c.FetchSessionSlots = int(c.num("max.incremental.fetch.session.cache.slots"))
	c.DescribePartitionsLimit = int32(c.num("max.request.partition.size.limit"))
	return nil
}

func (c *Config) resolveFeatures() {
	c.Features = meta.SupportedFeatures()
	for _, f := range []string{meta.MetadataVersionFeature, meta.ELRVersionFeature, meta.KRaftVersionFeature} {
		c.Features = c.Features.UpTo(f, int16(c.num("internal."+f+".max")))
	}
}

func (c *Config) resolveGroups() {
	c.OffsetsTopicPartitions = int32(c.num("offsets.topic.num.partitions"))
	c.OffsetsTopicReplication = int16(c.num("offsets.topic.replication.factor"))
	c.OffsetsTopicSegmentBytes = int32(c.num("offsets.topic.segment.bytes"))
	c.OffsetsRetentionMs = c.num("offsets.retention.minutes") * 60_000
	c.OffsetsRetentionCheckMs = c.num("offsets.retention.check.interval.ms")
	c.OffsetMetadataMaxBytes = int32(c.num("offset.metadata.max.bytes"))
	c.GroupInitialRebalanceDelayMs = c.num("group.initial.rebalance.delay.ms")
	c.GroupMinSessionTimeoutMs = int32(c.num("group.min.session.timeout.ms"))
	c.GroupMaxSessionTimeoutMs = int32(c.num("group.max.session.timeout.ms"))
	c.GroupMaxSize = int32(c.num("group.max.size"))
}

func (c *Config) resolveIdentity() error {
	c.NodeID = int32(c.num("node.id"))
	if id, ok := c.static["broker.id"]; ok {
		if n, set := c.static["node.id"]; set && n != id {
			return fmt.Errorf("node.id %s and broker.id %s differ: remove broker.id", n, id)
		}
		n, _ := strconv.ParseInt(id, 10, 32)
		c.NodeID = int32(n)
	}
	c.Rack = c.text("broker.rack")
	return c.resolveDirs()
}

// resolveDirs takes log.dirs, or log.dir where that is not set. A path is cleaned: one directory
// has one name.
func (c *Config) resolveDirs() error {
	name := "log.dirs"
	if _, _, set := c.lookup(name); !set {
		name = "log.dir"
	}
	c.LogDirs = nil
	for _, d := range SplitList(c.text(name)) {
		if d == "" {
			continue
		}
		d = path.Clean(d)
		if slices.Contains(c.LogDirs, d) {
			return fmt.Errorf("%s names %s twice", name, d)
		}
		c.LogDirs = append(c.LogDirs, d)
	}
	if len(c.LogDirs) == 0 {
		return fmt.Errorf("%s is empty: name at least one directory", name)
	}
	c.MetadataLogDir = c.LogDirs[0]
	if d := c.text("metadata.log.dir"); d != "" {
		c.MetadataLogDir = path.Clean(d)
	}
	return nil
}

func (c *Config) resolveListeners() error {
	var err error
	if c.Listeners, err = parseListeners("listeners", c.text("listeners")); err != nil {
		return err
	}
	if len(c.Listeners) == 0 {
		return fmt.Errorf("listeners is empty: name at least one, as PLAINTEXT://:9092")
	}
	protocols := SplitList(c.text("listener.security.protocol.map"))
	if _, _, set := c.lookup("listener.security.protocol.map"); !set {
		for _, n := range c.ControllerListeners {
			if !isProtocol(n) {
				protocols = append(protocols, n+":PLAINTEXT")
			}
		}
	}
	for _, n := range c.ControllerListeners {
		if err := servedProtocol(n, protocols); err != nil {
			return err
		}
	}
	for _, l := range c.Listeners {
		if err := servedProtocol(l.Name, protocols); err != nil {
			return err
		}
	}
	c.Advertised, err = parseListeners("advertised.listeners", c.text("advertised.listeners"))
	return err
}

// isProtocol reports whether a listener is named as one of Kafka's security protocols: it means
// that one.
func isProtocol(name string) bool {
	return name == "PLAINTEXT" || name == "SSL" || name == "SASL_PLAINTEXT" || name == "SASL_SSL"
}

func servedProtocol(name string, protocols []string) error {
	protocol := name
	for _, p := range protocols {
		if n, proto, ok := strings.Cut(p, ":"); ok && strings.EqualFold(n, name) {
			protocol = proto
		}
	}
	if !strings.EqualFold(protocol, "PLAINTEXT") {
		return fmt.Errorf("listener %s uses %s: only PLAINTEXT listeners are served", name, protocol)
	}
	return nil
}

// hostBytes are what Kafka takes for the host of a listener.
const hostBytes = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-%._:"

func parseListeners(setting, text string) ([]Listener, error) {
	var out []Listener
	for _, e := range SplitList(text) {
		bad := &ValueError{Name: setting, Value: e, Why: "Expected NAME://host:port"}
		name, addr, ok := strings.Cut(e, "://")
		if !ok || name == "" {
			return nil, bad
		}
		colon := strings.LastIndexByte(addr, ':')
		if colon < 0 {
			return nil, bad
		}
		host := addr[:colon]
		if inner, opened := strings.CutPrefix(host, "["); opened {
			host, ok = strings.CutSuffix(inner, "]")
		}
		port, err := strconv.ParseUint(addr[colon+1:], 10, 16)
		if err != nil || !ok || strings.Trim(host, hostBytes) != "" {
			return nil, bad
		}
		for _, o := range out {
			if strings.EqualFold(o.Name, name) {
				return nil, &ValueError{Name: setting, Value: text, Why: "Each listener must have a different name"}
			}
		}
		out = append(out, Listener{Name: strings.ToUpper(name), Host: host, Port: int32(port)})
	}
	return out, nil
}
