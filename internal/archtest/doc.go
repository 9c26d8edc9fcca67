// Package archtest holds the tests of the module as a whole: which package may
// import which, where the protocol's eras may be named, how long a file may grow,
// who may start a goroutine, what the exported API is, what a small program links.
//
// The tables in these tests are decisions, not records. When a build fails here,
// look at the change first and at the table last; an entry needs a reason that
// a reader a year from now accepts. An entry that nothing needs fails as well.
//
// Each rule is tried on a file in testdata/planted that breaks it, so that a rule
// that has gone blind is noticed.
package archtest
