package page

// Web has the page's own files.
var Web = web
