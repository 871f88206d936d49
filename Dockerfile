# The controller (no Spark, no Java), and the base of users' drivers and executors, with a connector for S3 or without.
# Layers are ordered by how often they change; our own source is the last and smallest of each.
#
# `make release` gives each file the time of the commit. Python would then find none of its compiled files current, because they
# name the time of their source. So they are compiled anew, and trusted (--invalidation-mode unchecked-hash).

FROM docker.io/library/debian:bookworm-slim AS base
ARG SOURCE_DATE_EPOCH
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3 tini \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/* /var/cache/ldconfig \
    && groupadd --gid 10001 streamjob \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin streamjob \
    && PYTHONHASHSEED=0 python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3*
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/tmp \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# What builds is thrown away. The arguments are for machines with a mirror or a proxy; without them nothing changes.
FROM base AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
ARG PIP_CONFIG_FILE
COPY requirements/build.lock /tmp/
RUN python3 -m venv /opt/build && /opt/build/bin/pip install --no-cache-dir --no-compile --require-hashes -r /tmp/build.lock
ENV PYTHONHASHSEED=0 COMPILE="python3 -m compileall -q -f --invalidation-mode unchecked-hash"

FROM build AS source
ARG PIP_CONFIG_FILE
WORKDIR /source
COPY pyproject.toml README.md ./
COPY operator operator
RUN /opt/build/bin/pip install --no-deps --no-index --no-build-isolation --no-compile --target /opt/streamjob . \
    && $COMPILE /opt/streamjob

FROM build AS controller-packages
ARG PIP_CONFIG_FILE
COPY requirements/controller.lock /tmp/
RUN python3 -m venv --without-pip /opt/venv \
    && /opt/build/bin/pip --python /opt/venv/bin/python install --no-cache-dir --no-compile -r /tmp/controller.lock \
    && find /opt/venv -type d -name tests -prune -exec rm -rf {} + \
    && $COMPILE /opt/venv/lib

FROM base AS controller
ARG VERSION REVISION SOURCE_URL
LABEL org.opencontainers.image.title="StreamJob controller" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.source="${SOURCE_URL}" \
    org.opencontainers.image.licenses="Apache-2.0"
COPY --from=controller-packages /opt/venv /opt/venv
COPY --from=source /opt/streamjob /opt/venv/lib/python3.11/site-packages
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/venv/bin/python", "-m", "streamjob.controller"]

# Java's package fails without the folder for its manual pages.
FROM base AS java
ARG SOURCE_DATE_EPOCH
COPY docker/keystore.py /opt/
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && python3 /opt/keystore.py /etc/ssl/certs/java/cacerts \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/* /var/cache/ldconfig

FROM java AS maven
RUN apt-get update && apt-get install -y --no-install-recommends maven && rm -rf /var/lib/apt/lists/*

FROM maven AS jars
ARG MAVEN_OPTS
ARG MAVEN_SETTINGS
ARG PYSPARK_VERSION=4.1.4
WORKDIR /source
COPY dev/images/jars/pom.xml ./
RUN mvn --batch-mode --quiet ${MAVEN_SETTINGS:+--settings "$MAVEN_SETTINGS"} -Duser.home=/root \
    -Dspark="${PYSPARK_VERSION%.*}" dependency:copy-dependencies -DoutputDirectory=/jars

FROM build AS driver-packages
ARG PIP_CONFIG_FILE
ARG PYSPARK_VERSION=4.1.4
ARG PYSPARK_EXTRAS=""
COPY requirements/driver.lock /tmp/
# The locked version comes with its hash; another one, and extras, as pip finds them. pyspark is published as source only.
# pip stays in this venv: users add their own packages on top of this image.
RUN python3 -m venv /opt/venv \
    && if grep -q "^pyspark==${PYSPARK_VERSION} " /tmp/driver.lock; then hashes="--require-hashes -r /tmp/driver.lock"; fi \
    && /opt/build/bin/pip wheel --no-cache-dir --no-build-isolation --wheel-dir /tmp/wheels ${hashes:-pyspark==${PYSPARK_VERSION}} \
    && /opt/venv/bin/pip install --no-cache-dir --no-compile --no-index --find-links /tmp/wheels pyspark \
    && if [ -n "${PYSPARK_EXTRAS}" ]; then /opt/venv/bin/pip install --no-cache-dir --no-compile ${PYSPARK_EXTRAS}; fi \
    && rm -rf /tmp/wheels \
    && cd /opt/venv/lib/python3.11/site-packages/pyspark && rm -rf examples licenses data \
    && $COMPILE /opt/venv/lib

# What both drivers have. Their class paths differ, and so do the archives of classes, which hold for exactly these jars: with it a
# driver starts in about half of the time.
FROM java AS spark
COPY --from=driver-packages /opt/venv /opt/venv
ENV JAVA_HOME=/usr/lib/jvm/java-17-openjdk-amd64 \
    SPARK_HOME=/opt/venv/lib/python3.11/site-packages/pyspark \
    SPARK_LOCAL_DIRS=/tmp \
    PYSPARK_PYTHON=/opt/venv/bin/python \
    PYSPARK_DRIVER_PYTHON=/opt/venv/bin/python
COPY --from=jars /jars /opt/venv/lib/python3.11/site-packages/pyspark/jars
COPY operator/streamjob/jvm/class_archive.py /opt/
COPY docker/entrypoint.sh docker/decom.sh /opt/
WORKDIR /tmp
ENTRYPOINT ["/opt/entrypoint.sh"]

FROM maven AS s3-jars
ARG MAVEN_OPTS
ARG MAVEN_SETTINGS
ARG MAVEN_PROFILES=""
WORKDIR /source
COPY dev/s3/pom.xml ./
RUN mvn --batch-mode --quiet ${MAVEN_SETTINGS:+--settings "$MAVEN_SETTINGS"} ${MAVEN_PROFILES} -Duser.home=/root \
    dependency:copy-dependencies -DoutputDirectory=/jars

FROM spark AS driver-s3
COPY --from=s3-jars /jars /opt/venv/lib/python3.11/site-packages/pyspark/jars
RUN /opt/venv/bin/python /opt/class_archive.py
COPY --from=source /opt/streamjob /opt/venv/lib/python3.11/site-packages
USER 10001:10001

FROM spark AS driver
ARG CLASS_ARCHIVE=true
ARG VERSION REVISION SOURCE_URL
LABEL org.opencontainers.image.title="StreamJob driver" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.source="${SOURCE_URL}" \
    org.opencontainers.image.licenses="Apache-2.0"
RUN if [ "${CLASS_ARCHIVE}" = true ]; then /opt/venv/bin/python /opt/class_archive.py; fi
COPY --from=source /opt/streamjob /opt/venv/lib/python3.11/site-packages
USER 10001:10001
