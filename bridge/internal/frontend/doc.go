// Package frontend has what bridge/gateway and bridge/toolserver share: HTTP handlers with
// authentication and limits, the classification of errors, and the look-up of tools by their
// upstream server and name.
//
// Package frontend/frontendtest has what their tests share.
package frontend
