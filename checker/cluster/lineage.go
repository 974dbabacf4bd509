package cluster

import "slices"

// origin is where the records of an epoch begin in a log.
type origin struct {
	epoch int32
	start int64
}

// epochs lists what a log has below an offset, by epoch.
func epochs(entries []Entry, below int64) (out []origin) {
	for _, e := range entries {
		if e.Base >= below {
			break
		}
		if n := len(out); n == 0 || out[n-1].epoch != e.Epoch {
			out = append(out, origin{e.Epoch, e.Base})
		}
	}
	return out
}

// leaves is where a log that ends at end leaves a lineage. Logs that have records of the same
// epoch are equal up to where the first of them goes on in another one. Of what lies below the
// lineage nobody has kept anything.
func leaves(lineage, log []origin, end int64) int64 {
	if len(lineage) == 0 || len(log) == 0 {
		return end
	}
	for i := len(log) - 1; i >= 0; i-- {
		j := slices.IndexFunc(lineage, func(o origin) bool { return o.epoch == log[i].epoch })
		switch {
		case j < 0:
			end = log[i].start // it is another's from there on
		case j+1 < len(lineage):
			return min(end, lineage[j+1].start)
		default:
			return end
		}
	}
	return max(end, lineage[0].start)
}

// succeeds takes the log of who begins to lead at an offset for the newest lineage, and returns
// where it leaves the one before: the log of the last leader, whether it is on a disk still or
// not. A leader of an epoch before that is nobody's successor.
func (p *replicated) succeeds(node, epoch int32, offset int64) int64 {
	if n := len(p.lineage); n > 0 && p.lineage[n-1].epoch > epoch {
		return offset
	}
	log := epochs(p.log(node).entries, offset)
	at := leaves(p.lineage, log, offset)
	if n := len(log); n == 0 || log[n-1].epoch != epoch {
		log = append(log, origin{epoch, offset})
	}
	p.lineage = log
	return at
}
