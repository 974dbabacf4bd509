package meta

// ConfigRecord sets or, with a nil value, removes one key of a resource.
type ConfigRecord struct {
	ResourceType ResourceType
	ResourceName string
	Name         string
	Value        *string
}

func (*ConfigRecord) Key() int16        { return 4 }
func (*ConfigRecord) MaxVersion() int16 { return 0 }
func (r *ConfigRecord) walk(c *codec) {
	c.int8((*int8)(&r.ResourceType))
	c.string(&r.ResourceName)
	c.string(&r.Name)
	c.nullableString(&r.Value)
	c.tags()
}

// FeatureLevelRecord finalizes the level of a feature; 0 is none.
type FeatureLevelRecord struct {
	Name         string
	FeatureLevel int16
}

func (*FeatureLevelRecord) Key() int16        { return 12 }
func (*FeatureLevelRecord) MaxVersion() int16 { return 0 }
func (r *FeatureLevelRecord) walk(c *codec) {
	c.string(&r.Name)
	c.int16(&r.FeatureLevel)
	c.tags()
}

// NoOpRecord changes nothing but the offset.
type NoOpRecord struct{}

func (*NoOpRecord) Key() int16        { return 20 }
func (*NoOpRecord) MaxVersion() int16 { return 0 }
func (*NoOpRecord) walk(c *codec)     { c.tags() }

// BeginTransactionRecord opens a metadata transaction (KIP-868): what follows counts only
// once it ends.
type BeginTransactionRecord struct {
	Name *string
}

func (*BeginTransactionRecord) Key() int16        { return 23 }
func (*BeginTransactionRecord) MaxVersion() int16 { return 0 }
func (r *BeginTransactionRecord) walk(c *codec) {
	c.tags(tag{0, r.Name != nil, func() { c.nullableString(&r.Name) }})
}

// EndTransactionRecord makes a metadata transaction count.
type EndTransactionRecord struct{}

func (*EndTransactionRecord) Key() int16        { return 24 }
func (*EndTransactionRecord) MaxVersion() int16 { return 0 }
func (*EndTransactionRecord) walk(c *codec)     { c.tags() }

// AbortTransactionRecord drops the records of the open metadata transaction.
type AbortTransactionRecord struct {
	Reason *string
}

func (*AbortTransactionRecord) Key() int16        { return 25 }
func (*AbortTransactionRecord) MaxVersion() int16 { return 0 }
func (r *AbortTransactionRecord) walk(c *codec) {
	c.tags(tag{0, r.Reason != nil, func() { c.nullableString(&r.Reason) }})
}

// QuotaEntity is one part of what a client quota is set for; a nil name is the default.
type QuotaEntity struct {
	Type string
	Name *string
}

// ClientQuotaRecord sets or removes one quota of an entity.
type ClientQuotaRecord struct {
	Entity    []QuotaEntity
	QuotaName string
	Value     float64
	Remove    bool
}

func (*ClientQuotaRecord) Key() int16        { return 14 }
func (*ClientQuotaRecord) MaxVersion() int16 { return 0 }
func (r *ClientQuotaRecord) walk(c *codec) {
	array(c, &r.Entity, false, 3, func(e *QuotaEntity) {
		c.string(&e.Type)
		c.nullableString(&e.Name)
		c.tags()
	})
	c.string(&r.QuotaName)
	c.float64(&r.Value)
	c.bool(&r.Remove)
	c.tags()
}

// AccessControlEntryRecord adds an ACL.
type AccessControlEntryRecord struct {
	ID             UUID
	ResourceType   int8
	ResourceName   string
	PatternType    int8
	Principal      string
	Host           string
	Operation      int8
	PermissionType int8
}

func (*AccessControlEntryRecord) Key() int16        { return 18 }
func (*AccessControlEntryRecord) MaxVersion() int16 { return 0 }
func (r *AccessControlEntryRecord) walk(c *codec) {
	c.uuid(&r.ID)
	c.int8(&r.ResourceType)
	c.string(&r.ResourceName)
	c.int8(&r.PatternType)
	c.string(&r.Principal)
	c.string(&r.Host)
	c.int8(&r.Operation)
	c.int8(&r.PermissionType)
	c.tags()
}

// RemoveAccessControlEntryRecord removes an ACL.
type RemoveAccessControlEntryRecord struct {
	ID UUID
}

func (*RemoveAccessControlEntryRecord) Key() int16        { return 19 }
func (*RemoveAccessControlEntryRecord) MaxVersion() int16 { return 0 }
func (r *RemoveAccessControlEntryRecord) walk(c *codec) {
	c.uuid(&r.ID)
	c.tags()
}

// UserScramCredentialRecord sets what a user proves its password with.
type UserScramCredentialRecord struct {
	Name       string
	Mechanism  int8
	Salt       []byte
	StoredKey  []byte
	ServerKey  []byte
	Iterations int32
}

func (*UserScramCredentialRecord) Key() int16        { return 11 }
func (*UserScramCredentialRecord) MaxVersion() int16 { return 0 }
func (r *UserScramCredentialRecord) walk(c *codec) {
	c.string(&r.Name)
	c.int8(&r.Mechanism)
	c.bytes(&r.Salt)
	c.bytes(&r.StoredKey)
	c.bytes(&r.ServerKey)
	c.int32(&r.Iterations)
	c.tags()
}

// RemoveUserScramCredentialRecord removes a user's credential of a mechanism.
type RemoveUserScramCredentialRecord struct {
	Name      string
	Mechanism int8
}

func (*RemoveUserScramCredentialRecord) Key() int16        { return 22 }
func (*RemoveUserScramCredentialRecord) MaxVersion() int16 { return 0 }
func (r *RemoveUserScramCredentialRecord) walk(c *codec) {
	c.string(&r.Name)
	c.int8(&r.Mechanism)
	c.tags()
}

// DelegationTokenRecord sets a delegation token.
type DelegationTokenRecord struct {
	Owner               string
	Requester           string
	Renewers            []string
	IssueTimestamp      int64
	MaxTimestamp        int64
	ExpirationTimestamp int64
	TokenID             string
}

func (*DelegationTokenRecord) Key() int16        { return 10 }
func (*DelegationTokenRecord) MaxVersion() int16 { return 0 }
func (r *DelegationTokenRecord) walk(c *codec) {
	c.string(&r.Owner)
	c.string(&r.Requester)
	c.strings(&r.Renewers)
	c.int64(&r.IssueTimestamp)
	c.int64(&r.MaxTimestamp)
	c.int64(&r.ExpirationTimestamp)
	c.string(&r.TokenID)
	c.tags()
}

// RemoveDelegationTokenRecord removes a delegation token.
type RemoveDelegationTokenRecord struct {
	TokenID string
}

func (*RemoveDelegationTokenRecord) Key() int16        { return 26 }
func (*RemoveDelegationTokenRecord) MaxVersion() int16 { return 0 }
func (r *RemoveDelegationTokenRecord) walk(c *codec) {
	c.string(&r.TokenID)
	c.tags()
}

// ZkMigrationStateRecord is left by clusters that came from ZooKeeper.
type ZkMigrationStateRecord struct {
	State int8
}

func (*ZkMigrationStateRecord) Key() int16        { return 21 }
func (*ZkMigrationStateRecord) MaxVersion() int16 { return 0 }
func (r *ZkMigrationStateRecord) walk(c *codec) {
	c.int8(&r.State)
	c.tags()
}
