// Package checker judges. Its sub-packages compare what clients were told and what disks
// hold with what must always hold (docs/invariants.md):
//
//	logfile   the checker's own reader of segment bytes
//	store     one partition directory: I11, I12, I13, I16, I17, I18
//	history   what clients sent and saw: I4, I5, I6, I18, I29, I30 and the anomalies of
//	          the Jepsen project's Kafka workload
//
// They are pure, and they import nothing of the broker: a bug in its reader of batches must
// not blind the check.
package checker

import "fmt"

// Violation is one broken invariant, with its numbers.
type Violation struct {
	// Invariant is the number of docs/invariants.md ("I11") or an anomaly's name
	// ("lost-write").
	Invariant string
	// Where is the partition, file or client it was seen at.
	Where string
	Text  string
}

func (v Violation) Error() string { return v.Invariant + " " + v.Where + ": " + v.Text }

// Verdict collects violations.
type Verdict struct{ Violations []Violation }

// Failf adds a violation.
func (v *Verdict) Failf(invariant, where, format string, args ...any) {
	v.Violations = append(v.Violations, Violation{invariant, where, fmt.Sprintf(format, args...)})
}

// Merge adds another verdict's violations.
func (v *Verdict) Merge(o Verdict) { v.Violations = append(v.Violations, o.Violations...) }

// OK reports whether nothing was violated.
func (v *Verdict) OK() bool { return len(v.Violations) == 0 }
