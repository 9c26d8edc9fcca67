// Package leaktest fails the tests of a package that leave goroutines running.
//
//	func TestMain(m *testing.M) { leaktest.Main(m) }
package leaktest
