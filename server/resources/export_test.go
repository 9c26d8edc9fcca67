package resources

// What the tests of patterns, names and types look at.
var (
	IsName         = isName
	IsHidden       = isHidden
	IsWindowsAlias = isWindowsAlias
	URIOf          = uriOf
	TypeOf         = typeOf
	TypeOfAnswer   = typeOfAnswer
	IsText         = isText
	Types          = types
	ParsePattern   = parsePattern
)

// The limits that they hit.
const (
	MaxDepth   = maxDepth
	MaxElement = maxElement
	MaxPattern = maxPattern
)

func (p pattern) Matches(name string) bool   { return p.matches(name) }
func (p pattern) LeadsBelow(dir string) bool { return p.leadsBelow(dir) }
