package meta

import (
	"strconv"
	"strings"
)

// Endpoint is where a node listens.
type Endpoint struct {
	Name             string // the listener
	Host             string
	Port             uint16
	SecurityProtocol int16 // 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL
}

// Addr is "host:port"; an IPv6 address stands in brackets.
func (e Endpoint) Addr() string {
	host := e.Host
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(e.Port))
}

func (e *Endpoint) walk(c *codec) {
	c.string(&e.Name)
	c.string(&e.Host)
	c.uint16(&e.Port)
	c.int16(&e.SecurityProtocol)
	c.tags()
}

// FeatureRange is what levels of a feature a node supports.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

func (f *FeatureRange) walk(c *codec) {
	c.string(&f.Name)
	c.int16(&f.Min)
	c.int16(&f.Max)
	c.tags()
}

func (c *codec) endpoints(p *[]Endpoint) {
	array(c, p, false, 7, func(e *Endpoint) { e.walk(c) })
}

func (c *codec) featureRanges(p *[]FeatureRange) {
	array(c, p, false, 6, func(f *FeatureRange) { f.walk(c) })
}

// RegisterBrokerRecord registers an incarnation of a broker. Its offset in the log is the
// broker epoch.
type RegisterBrokerRecord struct {
	BrokerID             int32
	IsMigratingZkBroker  bool // version 2
	IncarnationID        UUID
	BrokerEpoch          int64
	Endpoints            []Endpoint
	Features             []FeatureRange
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool   // version 1
	LogDirs              []UUID // version 3
}

func (*RegisterBrokerRecord) Key() int16        { return 0 }
func (*RegisterBrokerRecord) MaxVersion() int16 { return 3 }
func (r *RegisterBrokerRecord) walk(c *codec) {
	c.int32(&r.BrokerID)
	if c.version >= 2 {
		c.bool(&r.IsMigratingZkBroker)
	}
	c.uuid(&r.IncarnationID)
	c.int64(&r.BrokerEpoch)
	c.endpoints(&r.Endpoints)
	c.featureRanges(&r.Features)
	c.nullableString(&r.Rack)
	c.bool(&r.Fenced)
	if c.version >= 1 {
		c.bool(&r.InControlledShutdown)
	}
	if c.version >= 3 {
		c.tags(tag{0, len(r.LogDirs) > 0, func() { c.uuids(&r.LogDirs) }})
	} else {
		c.tags()
	}
}

// UnregisterBrokerRecord forgets a broker.
type UnregisterBrokerRecord struct {
	BrokerID    int32
	BrokerEpoch int64
}

func (*UnregisterBrokerRecord) Key() int16        { return 1 }
func (*UnregisterBrokerRecord) MaxVersion() int16 { return 0 }
func (r *UnregisterBrokerRecord) walk(c *codec) {
	c.int32(&r.BrokerID)
	c.int64(&r.BrokerEpoch)
	c.tags()
}

// FenceBrokerRecord is how clusters before metadata.version 3.3-IV2 fence a broker.
type FenceBrokerRecord struct {
	ID    int32
	Epoch int64
}

func (*FenceBrokerRecord) Key() int16        { return 7 }
func (*FenceBrokerRecord) MaxVersion() int16 { return 0 }
func (r *FenceBrokerRecord) walk(c *codec) {
	c.int32(&r.ID)
	c.int64(&r.Epoch)
	c.tags()
}

// UnfenceBrokerRecord is how clusters before metadata.version 3.3-IV2 unfence a broker.
type UnfenceBrokerRecord struct {
	ID    int32
	Epoch int64
}

func (*UnfenceBrokerRecord) Key() int16        { return 8 }
func (*UnfenceBrokerRecord) MaxVersion() int16 { return 0 }
func (r *UnfenceBrokerRecord) walk(c *codec) {
	c.int32(&r.ID)
	c.int64(&r.Epoch)
	c.tags()
}

// BrokerRegistrationChangeRecord changes some of a broker's registration.
type BrokerRegistrationChangeRecord struct {
	BrokerID             int32
	BrokerEpoch          int64
	Fenced               int8   // -1 unfenced, 0 as it was, 1 fenced
	InControlledShutdown int8   // version 1: 0 as it was, 1 shutting down
	LogDirs              []UUID // version 2: empty is as it was
}

func (*BrokerRegistrationChangeRecord) Key() int16        { return 17 }
func (*BrokerRegistrationChangeRecord) MaxVersion() int16 { return 2 }
func (r *BrokerRegistrationChangeRecord) walk(c *codec) {
	c.int32(&r.BrokerID)
	c.int64(&r.BrokerEpoch)
	tags := []tag{{0, r.Fenced != 0, func() { c.int8(&r.Fenced) }}}
	if c.version >= 1 {
		tags = append(tags, tag{1, r.InControlledShutdown != 0, func() { c.int8(&r.InControlledShutdown) }})
	}
	if c.version >= 2 {
		tags = append(tags, tag{2, len(r.LogDirs) > 0, func() { c.uuids(&r.LogDirs) }})
	}
	c.tags(tags...)
}

// RegisterControllerRecord registers an incarnation of a controller (KIP-919).
type RegisterControllerRecord struct {
	ControllerID     int32
	IncarnationID    UUID
	ZkMigrationReady bool
	Endpoints        []Endpoint
	Features         []FeatureRange
}

func (*RegisterControllerRecord) Key() int16        { return 27 }
func (*RegisterControllerRecord) MaxVersion() int16 { return 0 }
func (r *RegisterControllerRecord) walk(c *codec) {
	c.int32(&r.ControllerID)
	c.uuid(&r.IncarnationID)
	c.bool(&r.ZkMigrationReady)
	c.endpoints(&r.Endpoints)
	c.featureRanges(&r.Features)
	c.tags()
}

// ProducerIdsRecord says that all producer ids below NextProducerID are given out.
type ProducerIdsRecord struct {
	BrokerID       int32
	BrokerEpoch    int64
	NextProducerID int64
}

func (*ProducerIdsRecord) Key() int16        { return 15 }
func (*ProducerIdsRecord) MaxVersion() int16 { return 0 }
func (r *ProducerIdsRecord) walk(c *codec) {
	c.int32(&r.BrokerID)
	c.int64(&r.BrokerEpoch)
	c.int64(&r.NextProducerID)
	c.tags()
}
