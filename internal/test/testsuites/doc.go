// Package testsuites finds test suites of other projects. They are not part of this module
// because of their size.
//
//	dir, ok := testsuites.Dir(t, "json/test_parsing") // not ok: use the own sample
package testsuites
