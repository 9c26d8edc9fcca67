// Package twotools offers two tools in place of the tools of a provider: one finds tools, the other calls them. It is shared by
// bridge/search and bridge/code, which differ in what the two tools take and return.
package twotools
