"""Queries that several pages ask alike, and the labels that they choose by."""

from deploy.grafana.panels import Panel, series

__all__ = ["GROUP", "NODE", "PAIR", "TOPIC", "WINDOW", "quantiles", "rate", "total"]

NODE = 'job="goqueue", instance=~"$instance"'
TOPIC = f'{NODE}, topic=~"$topic"'
GROUP = f'{NODE}, consumer_group=~"$group"'
PAIR = f'{NODE}, topic=~"$topic", consumer_group=~"$group"'
WINDOW = "[$__rate_interval]"


def rate(metric: str, labels: str, *by: str) -> str:
    """Per second, summed over all labels but these."""
    summed = f"sum by ({', '.join(by)})" if by else "sum"
    return f"{summed} (rate({metric}{{{labels}}}{WINDOW}))"


def total(metric: str, labels: str, *by: str) -> str:
    summed = f"sum by ({', '.join(by)})" if by else "sum"
    return f"{summed} ({metric}{{{labels}}})"


def quantiles(title: str, metric: str, labels: str, meaning: str = "", by: str = "") -> Panel:
    """Median and 99th percentile of a histogram."""
    kept = f"le, {by}" if by else "le"
    suffix = f" {{{{{by}}}}}" if by else ""
    rates = f"sum by ({kept}) (rate({metric}_bucket{{{labels}}}{WINDOW}))"
    queries = [
        (f"histogram_quantile({quantile}, {rates})", f"{name}{suffix}")
        for quantile, name in ((0.5, "p50"), (0.99, "p99"))
    ]
    return series(title, *queries, unit="s", meaning=meaning)
