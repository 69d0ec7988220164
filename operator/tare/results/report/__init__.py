"""Results: store, tables, export."""
