package controller

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/config"
	"seedlog/node/meta"
)

// Settings that matter for who is in sync and who leads.
const (
	minISRName          = "min.insync.replicas"
	uncleanElectionName = "unclean.leader.election.enable"
)

// maxBytesPerRequest bounds the batch of a request, in which each record names the resource anew:
// Kafka's metadata log takes no larger one, and who cannot fetch it cannot follow.
const maxBytesPerRequest = 8 << 20

// alteration is what a request wants of one resource.
type alteration struct {
	resource meta.ConfigResource
	changes  []meta.ConfigEntry // set, in the order of the request
	removals []string
	err      *apiError
}

func (a *alteration) count() int { return len(a.changes) + len(a.removals) }

// bytes is what its records come to, about.
func (a *alteration) bytes() int {
	n := a.count() * len(a.resource.Name)
	for _, c := range a.changes {
		n += len(c.Name) + len(c.Value)
	}
	for _, name := range a.removals {
		n += len(name)
	}
	return n
}

func (s *State) incrementalAlterConfigs(r *kmsg.IncrementalAlterConfigsRequest, in Input) Decision {
	resp := r.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	all := make([]alteration, len(r.Resources))
	for i := range r.Resources {
		all[i].resource = resourceOf(r.Resources[i].ResourceType, r.Resources[i].ResourceName)
	}
	records := s.alterAll(all, func(i int) { s.incremental(&all[i], &r.Resources[i]) })
	for _, a := range all {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = kmsg.ConfigResourceType(a.resource.Type), a.resource.Name
		out.ErrorCode, out.ErrorMessage = a.err.errorCode(), a.err.message()
		resp.Resources = append(resp.Resources, out)
	}
	return s.altered(records, r.ValidateOnly, resp, in)
}

func (s *State) alterConfigs(r *kmsg.AlterConfigsRequest, in Input) Decision {
	resp := r.ResponseKind().(*kmsg.AlterConfigsResponse)
	all := make([]alteration, len(r.Resources))
	for i := range r.Resources {
		all[i].resource = resourceOf(r.Resources[i].ResourceType, r.Resources[i].ResourceName)
	}
	records := s.alterAll(all, func(i int) { s.replacing(&all[i], &r.Resources[i]) })
	for _, a := range all {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = kmsg.ConfigResourceType(a.resource.Type), a.resource.Name
		out.ErrorCode, out.ErrorMessage = a.err.errorCode(), a.err.message()
		resp.Resources = append(resp.Resources, out)
	}
	return s.altered(records, r.ValidateOnly, resp, in)
}

// alterAll decides each alteration of a request by itself, once work has filled it in. What is
// wrong with one is in its err then. What is named twice, or comes after one too many, is not
// even worked out.
func (s *State) alterAll(all []alteration, work func(i int)) (records []meta.Record) {
	seen := make(map[meta.ConfigResource]int, len(all))
	for i := range all {
		seen[all[i].resource]++
	}
	size, full := 0, false
	for i := range all {
		a := &all[i]
		if seen[a.resource] > 1 {
			a.err = failf(kerr.InvalidRequest, "Each resource must appear at most once.")
			continue
		}
		if !full {
			work(i)
			full = a.err == nil && (len(records)+a.count() > maxRecordsPerRequest || size+a.bytes() > maxBytesPerRequest)
		}
		switch {
		case full:
			a.err = failf(kerr.PolicyViolation, "Unable to perform excessively large batch operation.")
		case a.err == nil:
			records = s.alter(records, a)
			size += a.bytes()
		}
	}
	return records
}

func resourceOf(t kmsg.ConfigResourceType, name string) meta.ConfigResource {
	return meta.ConfigResource{Type: meta.ResourceType(t), Name: name}
}

// incremental turns set, delete, append and subtract into values.
func (s *State) incremental(a *alteration, x *kmsg.IncrementalAlterConfigsRequestResource) {
	current := s.image.Config(a.resource.Type, a.resource.Name)
	seen := make(map[string]bool, len(x.Configs))
	for _, c := range x.Configs {
		if seen[c.Name] {
			a.err = failf(kerr.InvalidRequest, "Error due to duplicate config keys: %s", c.Name)
			return
		}
		seen[c.Name] = true
		if c.Value == nil && c.Op != kmsg.IncrementalAlterConfigOpDelete {
			a.err = failf(kerr.InvalidRequest, "Null value not supported for : %s", c.Name)
			return
		}
		switch c.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			a.changes = append(a.changes, meta.ConfigEntry{Name: c.Name, Value: *c.Value})
		case kmsg.IncrementalAlterConfigOpDelete:
			a.removals = append(a.removals, c.Name)
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			value, err := listOp(a.resource.Type, current, c)
			if err != nil {
				a.err = err
				return
			}
			a.changes = append(a.changes, meta.ConfigEntry{Name: c.Name, Value: value})
		default:
			a.err = failf(kerr.InvalidRequest, "Unknown operation type %d", c.Op)
			return
		}
	}
}

// listOp appends to, or subtracts from, the present value of a list, or else its default.
func listOp(t meta.ResourceType, current meta.Config, c kmsg.IncrementalAlterConfigsRequestResourceConfig) (string, *apiError) {
	typ, dflt, known := definition(t, c.Name)
	if !known || typ != config.List {
		op := "APPEND"
		if c.Op == kmsg.IncrementalAlterConfigOpSubtract {
			op = "SUBTRACT"
		}
		return "", failf(kerr.InvalidConfig, "Can't %s to key %s because its type is not LIST.", op, c.Name)
	}
	value, set := current.Get(c.Name)
	if !set {
		value = dflt
	}
	list, given := config.SplitList(value), config.SplitList(*c.Value)
	if c.Op == kmsg.IncrementalAlterConfigOpSubtract {
		remove := setOf(given)
		return strings.Join(slices.DeleteFunc(list, func(e string) bool { return remove[e] }), ","), nil
	}
	have := setOf(list)
	for _, e := range given {
		if !have[e] {
			have[e] = true
			list = append(list, e)
		}
	}
	return strings.Join(list, ","), nil
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, e := range list {
		set[e] = true
	}
	return set
}

// replacing is the old request: what it does not name is removed.
func (s *State) replacing(a *alteration, x *kmsg.AlterConfigsRequestResource) {
	named := make(map[string]bool, len(x.Configs))
	for _, c := range x.Configs {
		if named[c.Name] {
			a.err = failf(kerr.InvalidRequest, "Error due to duplicate config keys: %s", c.Name)
			return
		}
		named[c.Name] = true
		if c.Value == nil {
			a.err = failf(kerr.InvalidRequest, "Null value not supported for : %s", c.Name)
			return
		}
		a.changes = append(a.changes, meta.ConfigEntry{Name: c.Name, Value: *c.Value})
	}
	for _, e := range s.image.Config(a.resource.Type, a.resource.Name) {
		if !named[e.Name] {
			a.removals = append(a.removals, e.Name)
		}
	}
}

// checkValueSize: no client of an older version could read a longer one.
func checkValueSize(value string) *apiError {
	if len(value) <= maxTextBytes {
		return nil
	}
	return failf(kerr.InvalidConfig, "The configuration value cannot be added because it exceeds the maximum value size of %d bytes.", maxTextBytes)
}

// alter checks an alteration and appends its records. Brokers are told again of a value
// that they have: for some settings that means to load something anew.
func (s *State) alter(records []meta.Record, a *alteration) []meta.Record {
	current := s.image.Config(a.resource.Type, a.resource.Name)
	next := current.Map()
	for _, c := range a.changes {
		if a.err = checkValueSize(c.Value); a.err != nil {
			return records
		}
		next[c.Name] = c.Value
	}
	for _, name := range a.removals {
		delete(next, name)
	}
	if a.err = s.checkConfig(*a, next); a.err != nil {
		return records
	}
	broker := a.resource.Type == meta.BrokerResource
	record := func(name string, value *string) {
		records = append(records, meta.Record{Body: &meta.ConfigRecord{
			ResourceType: a.resource.Type, ResourceName: a.resource.Name, Name: name, Value: value}})
	}
	for _, c := range a.changes {
		if old, set := current.Get(c.Name); broker || !set || old != c.Value {
			record(c.Name, &c.Value)
		}
	}
	for _, name := range a.removals {
		if _, set := current.Get(name); broker || set {
			record(name, nil)
		}
	}
	return records
}

func (s *State) checkConfig(a alteration, next map[string]string) *apiError {
	name := a.resource.Name
	switch a.resource.Type {
	case meta.TopicResource:
		if why := CheckTopicName(name); why != "" {
			return failf(kerr.InvalidTopicException, "%s", why)
		}
		if s.image.Topic(name) == nil {
			return failf(kerr.UnknownTopicOrPartition, "")
		}
		return s.checkTopicConfig(next)
	case meta.BrokerResource:
		return s.checkBrokerConfig(a)
	case meta.ClientMetricsResource, meta.GroupResource:
		if name == "" {
			return failf(kerr.InvalidRequest, "The name of the resource must not be empty.")
		}
		return checkOther(a.resource.Type, next)
	}
	return failf(kerr.InvalidRequest, "Unknown resource type %d", a.resource.Type)
}

func (s *State) checkTopicConfig(overrides map[string]string) *apiError {
	names := make([]string, 0, len(overrides))
	for name := range overrides { //order: sorted below
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := config.CheckTopic(name, overrides[name]); err != nil {
			return failf(kerr.InvalidConfig, "%s", err)
		}
	}
	if err := s.brokerConfig().CheckTopicSet(overrides); err != nil {
		return failf(kerr.InvalidConfig, "%s", err)
	}
	return nil
}

func (s *State) checkBrokerConfig(a alteration) *apiError {
	if a.resource.Name != "" {
		id, err := strconv.ParseInt(a.resource.Name, 10, 32)
		if err != nil {
			return failf(kerr.InvalidRequest, "Unable to parse broker name as a base 10 number.")
		}
		if s.image.Broker(int32(id)) == nil {
			return failf(kerr.BrokerIDNotRegistered, "No broker with id %d found.", id)
		}
	}
	for _, c := range a.changes {
		if err := s.checkBrokerChange(a, c.Name); err != nil {
			return err
		}
		if err := config.CheckBroker(c.Name, c.Value); err != nil {
			return failf(kerr.InvalidConfig, "%s", err)
		}
	}
	for _, name := range a.removals {
		if err := s.checkBrokerChange(a, name); err != nil {
			return err
		}
		if name == minISRName && a.resource.Name == "" && s.elrEnabled() {
			return failf(kerr.InvalidConfig, "Cluster-level %s cannot be removed while ELR is enabled.", minISRName)
		}
	}
	return nil
}

// checkBrokerChange asks whether the setting can be changed in a running broker.
func (s *State) checkBrokerChange(a alteration, name string) *apiError {
	if name == minISRName && a.resource.Name != "" && s.elrEnabled() {
		return failf(kerr.InvalidConfig, "Broker-level %s cannot be altered while ELR is enabled.", minISRName)
	}
	if d := config.BrokerDef(name); d != nil && d.Scope == config.ReadOnly {
		return failf(kerr.InvalidRequest, "Cannot update these configs dynamically: Set(%s)", name)
	}
	return nil
}

// otherDef is a setting of a resource that is neither topic nor broker.
type otherDef struct {
	name     string
	typ      config.Type
	dflt     string
	min, max int64
	oneOf    string
}

var (
	clientMetricsDefs = [...]otherDef{
		{name: "interval.ms", typ: config.Int, dflt: "300000", min: 100, max: 3600000},
		{name: "match", typ: config.List},
		{name: "metrics", typ: config.List},
	}
	groupDefs = [...]otherDef{
		{name: "consumer.heartbeat.interval.ms", typ: config.Int, dflt: "5000", min: 1, max: 1<<31 - 1},
		{name: "consumer.session.timeout.ms", typ: config.Int, dflt: "45000", min: 1, max: 1<<31 - 1},
		{name: "share.auto.offset.reset", typ: config.String, dflt: "latest"},
		{name: "share.heartbeat.interval.ms", typ: config.Int, dflt: "5000", min: 1, max: 1<<31 - 1},
		{name: "share.isolation.level", typ: config.String, dflt: "read_uncommitted", oneOf: "read_committed, read_uncommitted"},
		{name: "share.record.lock.duration.ms", typ: config.Int, dflt: "30000", min: 1000, max: 3600000},
		{name: "share.session.timeout.ms", typ: config.Int, dflt: "45000", min: 1, max: 1<<31 - 1},
		{name: "streams.heartbeat.interval.ms", typ: config.Int, dflt: "5000", min: 1, max: 1<<31 - 1},
		{name: "streams.num.standby.replicas", typ: config.Int, dflt: "0", min: 0, max: 1<<31 - 1},
		{name: "streams.session.timeout.ms", typ: config.Int, dflt: "45000", min: 1, max: 1<<31 - 1},
	}
)

func otherDefs(t meta.ResourceType) []otherDef {
	if t == meta.ClientMetricsResource {
		return clientMetricsDefs[:]
	}
	return groupDefs[:]
}

// definition is the type and the default of a setting.
func definition(t meta.ResourceType, name string) (typ config.Type, dflt string, known bool) {
	var d *config.Def
	switch t {
	case meta.TopicResource:
		d = config.TopicDef(name)
	case meta.BrokerResource:
		d = config.BrokerDef(name)
	default:
		for _, o := range otherDefs(t) {
			if o.name == name {
				return o.typ, o.dflt, true
			}
		}
	}
	if d == nil {
		return 0, "", false
	}
	return d.Type, d.Default, true
}

func checkOther(t meta.ResourceType, next map[string]string) *apiError {
	unknown := len(next)
	for _, d := range otherDefs(t) {
		value, set := next[d.name]
		if !set {
			continue
		}
		unknown--
		bad := func(why string) *apiError {
			return failf(kerr.InvalidConfig, "%s", &config.ValueError{Name: d.name, Value: value, Why: why})
		}
		if d.typ == config.Int {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
			switch {
			case errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange):
				return bad("Not a number of type INT")
			case n < d.min:
				return bad("Value must be at least " + decimal(d.min))
			case n > d.max:
				return bad("Value must be no more than " + decimal(d.max))
			}
		}
		if d.oneOf != "" && !slices.Contains(config.SplitList(d.oneOf), value) {
			return bad("String must be one of: " + d.oneOf)
		}
	}
	if unknown > 0 {
		return failf(kerr.InvalidConfig, "Unknown config name.")
	}
	return nil
}
