package config

// Source tells which layer a value comes from, numbered as DescribeConfigs does.
type Source int8

const (
	SourceTopic          Source = 1
	SourceDynamicBroker  Source = 2
	SourceDynamicDefault Source = 3
	SourceStatic         Source = 4
	SourceDefault        Source = 5
)

// Entry is one described setting.
type Entry struct {
	Name      string
	Value     string
	Null      bool
	Source    Source
	ReadOnly  bool
	Sensitive bool
	Type      Type
	Doc       string
	Synonyms  []Synonym
}

// Synonym is one layer that could supply an entry's value, the winning one first.
type Synonym struct {
	Name, Value string
	Null        bool
	Source      Source
}

// DescribeTopic lists every topic setting in the order of names.
func (c *Config) DescribeTopic(overrides map[string]string) []Entry {
	out := make([]Entry, 0, len(topicDefs))
	for _, d := range topicDefs {
		v, overridden := overrides[d.Name]
		if d.Internal && !overridden {
			continue
		}
		e := Entry{Name: d.Name, Type: d.Type, Doc: d.Doc}
		if overridden {
			e.Synonyms = append(e.Synonyms, Synonym{Name: d.Name, Value: v, Source: SourceTopic})
		}
		for _, s := range d.synonyms {
			e.Synonyms = c.layers(e.Synonyms, s.name, s.factor)
		}
		name := d.Name
		if len(d.synonyms) > 0 {
			name = d.synonyms[0].name
		}
		e.Synonyms = append(e.Synonyms, Synonym{Name: name, Value: d.Default, Source: SourceDefault})
		e.Value, e.Source = e.Synonyms[0].Value, e.Synonyms[0].Source
		out = append(out, e)
	}
	return out
}

// DescribeBroker lists every broker setting in the order of the table.
func (c *Config) DescribeBroker() []Entry {
	out := make([]Entry, 0, len(brokerDefs))
	for _, d := range brokerDefs {
		if d.Internal {
			continue
		}
		e := Entry{Name: d.Name, Type: d.Type, Doc: d.Doc, ReadOnly: d.Scope == ReadOnly, Sensitive: d.Type == Password}
		e.Synonyms = c.layers(nil, d.Name, 1)
		if !d.Unset {
			e.Synonyms = append(e.Synonyms, Synonym{Name: d.Name, Value: d.Default, Source: SourceDefault})
		}
		if len(e.Synonyms) > 0 {
			e.Value, e.Source = e.Synonyms[0].Value, e.Synonyms[0].Source
		} else {
			e.Null, e.Source = true, SourceDefault
		}
		out = append(out, e)
	}
	return out
}

// DescribeDynamic lists the overrides that were set on brokers: of one broker, or of all.
func (c *Config) DescribeDynamic(overrides map[string]string, source Source) []Entry {
	var out []Entry
	for _, name := range sortedKeys(overrides) {
		e := Entry{Name: name, Value: overrides[name], Source: source, Type: String}
		if d := brokerByName[name]; d != nil {
			e.Type, e.Doc, e.Sensitive = d.Type, d.Doc, d.Type == Password
		}
		e.Synonyms = []Synonym{{Name: name, Value: e.Value, Source: source}}
		out = append(out, e)
	}
	return out
}

func (c *Config) layers(to []Synonym, name string, factor int64) []Synonym {
	add := func(m map[string]string, src Source) {
		if v, ok := m[name]; ok {
			to = append(to, Synonym{Name: name, Value: scaled(v, factor), Source: src})
		}
	}
	add(c.perBroker, SourceDynamicBroker)
	add(c.allBrokers, SourceDynamicDefault)
	add(c.static, SourceStatic)
	return to
}
