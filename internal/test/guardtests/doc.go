// Package guardtests has the tests of what guards do to calls of tools. Packages server and policy run them with direct calls, and
// packages with tools that call others with the calls of these.
package guardtests
