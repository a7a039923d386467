"""What a cluster may use while its brokers run different releases."""

from goqueue.cluster import (
    FEATURE_LEVEL,
    BrokerFenced,
    BrokerRegistered,
    BrokerRemoved,
    FeatureLevelRaised,
    MetadataChange,
    MetadataImage,
    level_of,
    raised_level,
)


def registered(name: str, level: int) -> BrokerRegistered:
    return BrokerRegistered(broker=name, directory=f"{name}-disk", incarnation=1, level_max=level)


def image_of(*changes: MetadataChange) -> MetadataImage:
    image = MetadataImage()
    for version, change in enumerate(changes, 1):
        image.apply([change], version)
    return image


def test_the_level_rises_with_the_registration_of_the_last_newer_broker() -> None:
    image = image_of(registered("a", FEATURE_LEVEL), registered("b", 1))

    assert raised_level(image, []) is None
    assert raised_level(image, [registered("b", FEATURE_LEVEL)]) == FEATURE_LEVEL


def test_a_broker_of_before_that_is_silent_holds_the_level_down_until_it_is_forgotten() -> None:
    image = image_of(registered("a", FEATURE_LEVEL), registered("b", 1))
    epoch = image.brokers["b"].epoch
    image.apply([BrokerFenced(broker="b", epoch=epoch)], 9)

    assert raised_level(image, []) is None
    assert raised_level(image, [BrokerRemoved(broker="b", epoch=epoch)]) == FEATURE_LEVEL


def test_the_level_never_passes_what_this_release_understands() -> None:
    newer = registered("a", FEATURE_LEVEL + 1)
    assert raised_level(image_of(newer), []) == FEATURE_LEVEL
    at_it = image_of(newer, FeatureLevelRaised(level=FEATURE_LEVEL))
    assert raised_level(at_it, []) is None


def test_a_cluster_without_brokers_keeps_its_level() -> None:
    assert raised_level(MetadataImage(), []) is None


def test_what_raises_a_level_is_understood_below_it() -> None:
    assert level_of(FeatureLevelRaised(level=2)) == 1
    assert level_of(registered("a", 1)) == 1
