"""Panels and dashboards as Grafana reads them: a few words in, its JSON out.

Owns the form: sizes, colours, variables, where a panel stands. Never a query.
"""

import msgspec

__all__ = ["Dashboard", "Panel", "Query", "Row", "document_of", "number", "percentage", "series"]

_COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Grafana migrates from here on by itself.
_SCHEMA = 39
# Units whose values may fall below zero.
_SIGNED = ("none", "s")


class Query(msgspec.Struct, frozen=True):
    """What is asked, and how a line is named."""

    expression: str
    legend: str


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One picture; `meaning` is shown where the title is pointed at."""

    title: str
    kind: str
    queries: tuple[Query, ...]
    unit: str
    meaning: str = ""
    width: int = 8
    height: int = 8
    # From which value on a number is yellow, and red; the other way round where less is worse.
    limits: tuple[float, float] | None = None
    is_stacked: bool = False


class Row(msgspec.Struct, frozen=True):
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """A page."""

    name: str
    title: str
    meaning: str
    rows: tuple[Row, ...]
    has_topics: bool = False
    has_groups: bool = False


def number(
    title: str, expression: str, unit: str = "short", limits: tuple[float, float] | None = None
) -> Panel:
    """One large figure."""
    queries = (Query(expression, ""),)
    return Panel(
        title=title, kind="stat", queries=queries, unit=unit, width=4, height=4, limits=limits
    )


def series(
    title: str,
    *queries: tuple[str, str],
    unit: str = "short",
    meaning: str = "",
    width: int = 8,
    is_stacked: bool = False,
) -> Panel:
    """Lines over time."""
    return Panel(
        title=title,
        kind="timeseries",
        queries=tuple(Query(expression, legend) for expression, legend in queries),
        unit=unit,
        meaning=meaning,
        width=width,
        is_stacked=is_stacked,
    )


def percentage(title: str, expression: str, limits: tuple[float, float]) -> Panel:
    return number(title, expression, "percentunit", limits)


def document_of(dashboard: Dashboard) -> dict[str, object]:
    """The dashboard as a file that Grafana provisions or imports."""
    panels: list[dict[str, object]] = []
    top = 0
    for row in dashboard.rows:
        panels.append(_row(row.title, len(panels) + 1, top))
        top += 1
        left, depth = 0, 0
        for panel in row.panels:
            if left + panel.width > _COLUMNS:
                left, top, depth = 0, top + depth, 0
            place = {"h": panel.height, "w": panel.width, "x": left, "y": top}
            panels.append(_panel(panel, len(panels) + 1, place))
            left, depth = left + panel.width, max(depth, panel.height)
        top += depth
    return {
        "uid": f"goqueue-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.meaning,
        "tags": ["goqueue"],
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [_links()],
        "annotations": {"list": [_restarts()]},
        "templating": {"list": _variables(dashboard)},
        "panels": panels,
    }


def _row(title: str, number_of: int, top: int) -> dict[str, object]:
    place = {"h": 1, "w": _COLUMNS, "x": 0, "y": top}
    return {
        "id": number_of,
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": place,
        "panels": [],
    }


def _panel(panel: Panel, number_of: int, place: dict[str, int]) -> dict[str, object]:
    targets = [
        {
            "refId": chr(ord("A") + position),
            "datasource": _SOURCE,
            "expr": query.expression,
            "legendFormat": query.legend or "__auto",
            "range": panel.kind == "timeseries",
            "instant": panel.kind != "timeseries",
        }
        for position, query in enumerate(panel.queries)
    ]
    return {
        "id": number_of,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.meaning,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
        "targets": targets,
    }


def _defaults(panel: Panel) -> dict[str, object]:
    defaults: dict[str, object] = {"unit": panel.unit, "thresholds": _thresholds(panel)}
    if panel.kind == "timeseries":
        if panel.unit not in _SIGNED:
            defaults["min"] = 0
        defaults["custom"] = {
            "drawStyle": "line",
            "fillOpacity": 30 if panel.is_stacked else 5,
            "lineWidth": 1,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.is_stacked else "none", "group": "A"},
        }
    else:
        defaults["color"] = {"mode": "thresholds"}
    return defaults


def _thresholds(panel: Panel) -> dict[str, object]:
    steps: list[dict[str, object]] = [{"color": "green", "value": None}]
    if panel.limits is not None:
        yellow, red = panel.limits
        if yellow <= red:
            steps += [{"color": "yellow", "value": yellow}, {"color": "red", "value": red}]
        else:
            steps = [
                {"color": "red", "value": None},
                {"color": "yellow", "value": red},
                {"color": "green", "value": yellow},
            ]
    return {"mode": "absolute", "steps": steps}


def _options(panel: Panel) -> dict[str, object]:
    if panel.kind == "timeseries":
        return {
            "legend": {
                "displayMode": "table",
                "placement": "bottom",
                "calcs": ["lastNotNull", "max"],
                "showLegend": True,
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    return {
        "colorMode": "background" if panel.limits else "value",
        "graphMode": "none",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    }


def _variables(dashboard: Dashboard) -> list[dict[str, object]]:
    chosen = 'job="goqueue", instance=~"$instance"'
    variables: list[dict[str, object]] = [
        {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
            "current": {},
        },
        _variable(
            "instance", "Node", 'label_values(goqueue_broker_ready{job="goqueue"}, instance)'
        ),
    ]
    if dashboard.has_topics:
        asked = f"label_values(goqueue_broker_topic_partitions{{{chosen}}}, topic)"
        variables.append(_variable("topic", "Topic", asked))
    if dashboard.has_groups:
        asked = f"label_values(goqueue_consumer_group_members{{{chosen}}}, consumer_group)"
        variables.append(_variable("group", "Group", asked))
    return variables


def _variable(name: str, label: str, asked: str) -> dict[str, object]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "definition": asked,
        "query": {"query": asked, "refId": f"variable-{name}"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _links() -> dict[str, object]:
    """From each dashboard to the others, with the same choices."""
    return {
        "title": "GoQueue",
        "type": "dashboards",
        "tags": ["goqueue"],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
    }


def _restarts() -> dict[str, object]:
    """A line wherever a node was started."""
    return {
        "name": "Starts",
        "datasource": _SOURCE,
        "enable": True,
        "iconColor": "orange",
        "expr": 'changes(process_start_time_seconds{job="goqueue", instance=~"$instance"}[1m]) > 0',
        "titleFormat": "{{instance}} started",
    }
