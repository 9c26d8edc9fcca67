// Package approvaltests has the tests of guards that approve calls: who is asked, what is shown, how often a tool runs, and what the
// journal has. Package approval runs them with direct calls, and packages with tools that call others with the calls of these.
// It also has what other tests of approvals use.
package approvaltests
