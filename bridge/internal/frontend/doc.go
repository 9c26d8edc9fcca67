// Package frontend is shared by bridge/gateway and bridge/toolserver. It has HTTP handlers with authentication and
// limits, the classification of errors, and the look-up of tools by their upstream server and name.
//
// Package frontend/frontendtest is shared by their tests.
package frontend
