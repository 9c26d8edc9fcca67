// Package calltest measures the call stack of a function in tests. Tests of several
// packages use it to bound how many frames a call passes on its way to a tool.
package calltest
