package resources

// Functions under test.
var (
	IsName         = isName
	IsHidden       = isHidden
	IsWindowsAlias = isWindowsAlias
	URIOf          = uriOf
	TypeOf         = typeOf
	ResponseType   = responseType
	IsText         = isText
	Types          = types
	ParsePattern   = parsePattern
)

// Limits under test.
const (
	MaxDepth   = maxDepth
	MaxElement = maxElement
	MaxPattern = maxPattern
)

func (p pattern) Matches(name string) bool   { return p.matches(name) }
func (p pattern) LeadsBelow(dir string) bool { return p.leadsBelow(dir) }
