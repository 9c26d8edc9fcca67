// Package waittest waits for events in tests. A wait has a limit, and the failure says what
// the test waited for.
//
// Tests in virtual time (testing/synctest) do not need this package: if all goroutines wait
// there, the test fails immediately.
package waittest
