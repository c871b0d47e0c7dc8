// Stand-ins for UnityEngine: bodies and collisions.

namespace UnityEngine
{
    public enum ForceMode
    {
        Force = 0,
        Impulse = 1,
        VelocityChange = 2,
        Acceleration = 5,
    }

    public enum RigidbodyConstraints
    {
        None = 0,
        FreezePositionX = 2,
        FreezePositionY = 4,
        FreezePositionZ = 8,
        FreezePosition = 14,
        FreezeRotationX = 16,
        FreezeRotationY = 32,
        FreezeRotationZ = 64,
        FreezeRotation = 112,
        FreezeAll = 126,
    }

    public enum CollisionDetectionMode
    {
        Discrete,
        Continuous,
        ContinuousDynamic,
    }

    public enum RigidbodyInterpolation
    {
        None,
        Interpolate,
        Extrapolate,
    }

    public sealed class Rigidbody : Component
    {
        public Rigidbody() { }

#if UNITY_6000_0_OR_NEWER
        public Vector3 linearVelocity { get; set; }

        public float linearDamping { get; set; }

        public float angularDamping { get; set; }
#else
        public Vector3 velocity { get; set; }

        public float drag { get; set; }

        public float angularDrag { get; set; }
#endif

        public Vector3 angularVelocity { get; set; }

        public float maxAngularVelocity { get; set; }

        public float mass { get; set; }

        public bool useGravity { get; set; }

        public bool isKinematic { get; set; }

        public bool detectCollisions { get; set; }

        public bool freezeRotation { get; set; }

        public float sleepThreshold { get; set; }

        public Vector3 position { get; set; }

        public Quaternion rotation { get; set; }

        public Vector3 centerOfMass { get; set; }

        public RigidbodyConstraints constraints { get; set; }

        public CollisionDetectionMode collisionDetectionMode { get; set; }

        public RigidbodyInterpolation interpolation { get; set; }

        public void AddForce(Vector3 force) { }

        public void AddForce(Vector3 force, ForceMode mode) { }

        public void AddTorque(Vector3 torque) { }

        public void AddTorque(Vector3 torque, ForceMode mode) { }

        public bool IsSleeping() => default;

        public void MovePosition(Vector3 position) { }

        public void MoveRotation(Quaternion rot) { }

        public void ResetInertiaTensor() { }

        public void Sleep() { }

        public void WakeUp() { }
    }

    public class Collider : Component
    {
        public Collider() { }

        public bool enabled { get; set; }

        public bool isTrigger { get; set; }

        public float contactOffset { get; set; }

        public Rigidbody attachedRigidbody => default;

        public Bounds bounds => default;
    }

    public sealed class BoxCollider : Collider
    {
        public BoxCollider() { }

        public Vector3 center { get; set; }

        public Vector3 size { get; set; }
    }

    public sealed class SphereCollider : Collider
    {
        public SphereCollider() { }

        public Vector3 center { get; set; }

        public float radius { get; set; }
    }

    public class Collision
    {
        public Collision() { }

        public GameObject gameObject => default;

        public Rigidbody rigidbody => default;

        public Collider collider => default;

        public Transform transform => default;

        public Vector3 relativeVelocity => default;
    }

    public struct Bounds
    {
        public Bounds(Vector3 center, Vector3 size) { }

        public Vector3 center
        {
            get => default;
            set { }
        }

        public Vector3 size
        {
            get => default;
            set { }
        }

        public Vector3 extents
        {
            get => default;
            set { }
        }

        public Vector3 min
        {
            get => default;
            set { }
        }

        public Vector3 max
        {
            get => default;
            set { }
        }

        public static bool operator ==(Bounds lhs, Bounds rhs) => default;

        public static bool operator !=(Bounds lhs, Bounds rhs) => default;

        public bool Contains(Vector3 point) => default;

        public override bool Equals(object other) => default;

        public override int GetHashCode() => default;
    }

    public class Physics
    {
        public Physics() { }

        public static Vector3 gravity { get; set; }

        public static int defaultSolverIterations { get; set; }

        public static int defaultSolverVelocityIterations { get; set; }

        public static float bounceThreshold { get; set; }

        public static float defaultContactOffset { get; set; }

        public static void Simulate(float step) { }

    }
}
