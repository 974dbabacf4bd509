package index

// Table is the part of one index that is in memory: how many entries there are, a key for
// the first entry of each page, and the pages that are not on disk yet (plus the last one
// that is, which tail look-ups go to). Its user guards it and does the I/O.
//
//	file    |page 0|page 1|page 2|pa
//	keys     k0     k1     k2     k3
//	tail                  |page 2|page 3 (begun)|
//	written                        ^
type Table struct {
	size    int // of an entry
	perPage int
	n       int     // entries
	written int     // entries that the file has
	keys    []int64 // of the first entry of each page
	tail    []byte  // entries from tailAt on
	tailAt  int     // a page's first entry
}

// Init sets up an empty table for entries of the size.
func (x *Table) Init(entrySize int) {
	*x = Table{size: entrySize, perPage: PageSize / entrySize}
}

// Len is the number of entries.
func (x *Table) Len() int { return x.n }

// PerPage is the number of entries in a page.
func (x *Table) PerPage() int { return x.perPage }

// PageBytes is the size of a full page.
func (x *Table) PageBytes() int { return x.perPage * x.size }

// Append adds an entry, whose key is used should it begin a page.
func (x *Table) Append(entry []byte, key int64) {
	if x.n%x.perPage == 0 {
		x.keys = append(x.keys, key)
	}
	x.tail = append(x.tail, entry...)
	x.n++
}

// Load adds entries that the file has, page by page; keyOf is called for the first entry
// of each. Only the last page stays in memory.
func (x *Table) Load(b []byte, keyOf func(entry []byte) int64) {
	for len(b) > 0 {
		x.Append(b[:x.size], keyOf(b))
		b = b[x.size:]
		x.written = x.n
		x.trim()
	}
}

// FloorPage is the last page whose first key satisfies ok (true, then false), or -1.
func (x *Table) FloorPage(ok func(key int64) bool) int {
	return floor(len(x.keys), func(i int) bool { return ok(x.keys[i]) })
}

// Page returns page p if it is in memory. The slice is valid until the next change.
func (x *Table) Page(p int) ([]byte, bool) {
	from := p * x.perPage
	if from < x.tailAt {
		return nil, false
	}
	b := x.tail[(from-x.tailAt)*x.size:]
	return b[:min(len(b), x.PageBytes())], true
}

// Where is the place of page p in the file: offset and length in bytes.
func (x *Table) Where(p int) (off int64, n int) {
	from := p * x.perPage
	return int64(from) * int64(x.size), min(x.perPage, x.n-from) * x.size
}

// Unwritten is what the file lacks, and where it goes. Full pages only, unless all.
func (x *Table) Unwritten(all bool) (b []byte, off int64) {
	to := x.n
	if !all {
		to -= to % x.perPage
	}
	if to <= x.written {
		return nil, 0
	}
	return x.tail[(x.written-x.tailAt)*x.size : (to-x.tailAt)*x.size], int64(x.written) * int64(x.size)
}

// Dirty reports whether the file lacks entries.
func (x *Table) Dirty() bool { return x.written < x.n }

// Wrote marks bytes returned by Unwritten as written, and lets pages go that are.
func (x *Table) Wrote(bytes int) {
	x.written += bytes / x.size
	x.trim()
}

// trim drops pages that the file has, all but the last one begun.
func (x *Table) trim() {
	last := max(x.n-1, 0) / x.perPage * x.perPage
	keep := min(x.written/x.perPage*x.perPage, last)
	if keep <= x.tailAt {
		return
	}
	x.tail = append(x.tail[:0], x.tail[(keep-x.tailAt)*x.size:]...)
	x.tailAt = keep
}
