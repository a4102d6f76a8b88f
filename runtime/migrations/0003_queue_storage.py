"""Storage of the hot tables: room for HOT heartbeats, and vacuum and statistics by absolute thresholds.

A queue's rows live shortly, so scale factors come too late and statistics lie; thresholds are in rows.
"""

from django.db import migrations

SETTINGS = {
    "runtime_run": (
        "fillfactor = 75, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, "
        "autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000, autovacuum_vacuum_cost_delay = 0"
    ),
    "runtime_runstep": "fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000",
}
RESET = {
    "runtime_run": (
        "fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_analyze_scale_factor, "
        "autovacuum_analyze_threshold, autovacuum_vacuum_cost_delay"
    ),
    "runtime_runstep": "fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold",
}


class Migration(migrations.Migration):
    dependencies = [("runtime", "0002_initial")]
    operations = [
        migrations.RunSQL(f"ALTER TABLE {table} SET ({SETTINGS[table]})", f"ALTER TABLE {table} RESET ({RESET[table]})")
        for table in SETTINGS
    ]
