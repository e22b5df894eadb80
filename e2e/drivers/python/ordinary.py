"""Ordinary applications: requests of a web shop with Django's and SQLAlchemy's models.

    program.py ordinary-APPLICATION REQUESTS

Nothing is compared: the test reads from the proxy's metrics what such applications cost.
"""

import os

REQUESTS_PER_ORDER = 5


def environment():
    names = ["DRIVER_HOST", "DRIVER_PORT", "DRIVER_USER", "DRIVER_PASSWORD", "DRIVER_SCHEMA"]
    return [os.environ[name] for name in names]


def run(application, requests):
    serve = {"ordinary-django": django_shop, "ordinary-sqlalchemy": sqlalchemy_shop}[application]
    served = serve(requests)
    print('{"step": "served", "result": %d}' % served)


def django_shop(requests):
    """A connection for each request, as Django has it by default."""
    import django
    from django.conf import settings

    host, port, user, password, schema = environment()
    database = {
        "ENGINE": "django.db.backends.mysql",
        "HOST": host,
        "PORT": port,
        "USER": user,
        "PASSWORD": password,
        "NAME": schema,
        "OPTIONS": {"ssl_mode": "DISABLED"},
    }
    settings.configure(
        DATABASES={"default": database},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=["ordinary"],
    )
    django.setup()
    from django.db import close_old_connections, connection, models, transaction
    from django.db.models import Count, F

    class Item(models.Model):
        name = models.CharField(max_length=50, unique=True)
        price = models.DecimalField(max_digits=10, decimal_places=2)
        stock = models.IntegerField()

        class Meta:
            app_label = "ordinary"

    class Order(models.Model):
        customer = models.CharField(max_length=50, db_index=True)
        created = models.DateTimeField(auto_now_add=True)

        class Meta:
            app_label = "ordinary"

    class Line(models.Model):
        order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="lines")
        item = models.ForeignKey(Item, on_delete=models.CASCADE)
        count = models.IntegerField()

        class Meta:
            app_label = "ordinary"

    with connection.schema_editor() as editor:
        for model in [Item, Order, Line]:
            editor.create_model(model)
    Item.objects.bulk_create(
        Item(name=f"item {number}", price=number + 0.99, stock=1000) for number in range(50)
    )
    for request in range(requests):
        close_old_connections()
        customer = f"customer {request % 7}"
        list(Item.objects.filter(stock__gt=0).order_by("-price")[:10])
        Item.objects.get(name=f"item {request % 50}")
        list(Order.objects.filter(customer=customer).annotate(Count("lines")))
        list(Line.objects.filter(order__customer=customer).select_related("item")[:5])
        if request % REQUESTS_PER_ORDER == 0:
            with transaction.atomic():
                order = Order.objects.create(customer=customer)
                for number in range(3):
                    item = Item.objects.select_for_update().get(name=f"item {number}")
                    Line.objects.create(order=order, item=item, count=1)
                    Item.objects.filter(pk=item.pk).update(stock=F("stock") - 1)
            Item.objects.get_or_create(
                name=f"new {request}", defaults={"price": 1, "stock": 1}
            )
        connection.close()
    return requests


def sqlalchemy_shop(requests):
    """A pool of connections, as SQLAlchemy has it by default."""
    from sqlalchemy import ForeignKey, String, create_engine, func, select, update
    from sqlalchemy.engine import URL
    from sqlalchemy.orm import (
        DeclarativeBase,
        Mapped,
        Session,
        mapped_column,
        relationship,
        selectinload,
    )

    class Base(DeclarativeBase):
        pass

    class Item(Base):
        __tablename__ = "item"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str] = mapped_column(String(50), unique=True)
        stock: Mapped[int]

    class Order(Base):
        __tablename__ = "orders"
        id: Mapped[int] = mapped_column(primary_key=True)
        customer: Mapped[str] = mapped_column(String(50), index=True)
        lines: Mapped[list["Line"]] = relationship(back_populates="order")

    class Line(Base):
        __tablename__ = "line"
        id: Mapped[int] = mapped_column(primary_key=True)
        order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))
        item_id: Mapped[int] = mapped_column(ForeignKey("item.id"))
        order: Mapped[Order] = relationship(back_populates="lines")

    host, port, user, password, schema = environment()
    url = URL.create("mysql+pymysql", user, password, host, int(port), schema)
    engine = create_engine(url, connect_args={"ssl_disabled": True})
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all(Item(name=f"item {number}", stock=1000) for number in range(50))
        session.commit()
    for request in range(requests):
        customer = f"customer {request % 7}"
        with Session(engine) as session:
            session.scalars(select(Item).where(Item.stock > 0).limit(10)).all()
            session.scalar(select(func.count()).select_from(Order))
            orders = select(Order).where(Order.customer == customer).limit(5)
            session.scalars(orders.options(selectinload(Order.lines))).all()
            if request % REQUESTS_PER_ORDER == 0:
                order = Order(customer=customer)
                session.add(order)
                for number in range(3):
                    wanted = select(Item).where(Item.name == f"item {number}").with_for_update()
                    item = session.scalars(wanted).one()
                    order.lines.append(Line(item_id=item.id))
                    less = update(Item).where(Item.id == item.id).values(stock=Item.stock - 1)
                    session.execute(less)
                session.commit()
    engine.dispose()
    return requests
