// Package toolschema rewrites JSON Schemas of tools for programs that do not know all of JSON Schema.
package toolschema
