"""Add questions by hand or from production logs."""
