// Package migration holds docs/migration.md to what is: its Caddyfiles start,
// each line of the old fronts is in a table, and programs that run keep their
// sandboxes through the change.
package migration
