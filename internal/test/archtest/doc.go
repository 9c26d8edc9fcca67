// Package archtest contains the tests of the module as a whole: which packages a package may
// import, which packages may name a protocol era, how long a file may be, which files may
// start a goroutine, what the exported API is, and what a small program links.
//
// The tables in these tests are decisions about the design. If a test fails, reconsider the
// change before the table. Each exception needs a reason; an exception that is not needed
// fails the test.
//
// Each rule is tested with a file in testdata/planted that breaks it.
package archtest
