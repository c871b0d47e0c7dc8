using System.Collections.Generic;

namespace UnityEngine
{
    /// <summary>A part of a game object.</summary>
    public class Component : Object
    {
        /// <summary>The object that it is a part of.</summary>
        public GameObject gameObject { get; internal set; }

        /// <summary>The object's place.</summary>
        public Transform transform => gameObject.transform;

        /// <summary>Awake was called.</summary>
        internal bool IsAwake { get; set; }

        /// <summary>Start was called.</summary>
        internal bool IsStarted { get; set; }

        /// <summary>OnEnable was called, and OnDisable not since then.</summary>
        internal bool IsOn { get; set; }

        /// <summary>The object's first component of a type; null: there is none.</summary>
        public T GetComponent<T>()
            where T : class
        {
            return gameObject.GetComponent<T>();
        }

        /// <summary>The first component of a type here or below; null: there is none.</summary>
        public T GetComponentInChildren<T>(bool includeInactive = false)
            where T : class
        {
            return gameObject.GetComponentInChildren<T>(includeInactive);
        }
    }

    /// <summary>A component with a switch.</summary>
    public class Behaviour : Component
    {
        private bool _enabled = true;

        /// <summary>
        /// Its own switch. As in Unity, OnEnable and OnDisable are called by the setter itself, and a component that
        /// switches itself off in Awake gets neither.
        /// </summary>
        public bool enabled
        {
            get => _enabled;
            set
            {
                _enabled = value;
                World.RefreshSwitch(this);
            }
        }

        /// <summary>It is switched on, and its object is active.</summary>
        public bool isActiveAndEnabled => enabled && gameObject.activeInHierarchy;
    }

    /// <summary>What scripts derive from.</summary>
    public class MonoBehaviour : Behaviour
    {
    }

    /// <summary>
    /// An object's place. Unlike Unity's, a parent's rotation and scale do not move what hangs under it.
    /// </summary>
    public class Transform : Component
    {
        private readonly List<Transform> _children = new List<Transform>();

        /// <summary>What it hangs under; null: it is a root of its scene.</summary>
        public Transform parent { get; private set; }

        /// <summary>Its place relative to its parent.</summary>
        public Vector3 localPosition { get; set; }

        /// <summary>Its size.</summary>
        public Vector3 localScale { get; set; } = new Vector3(1f, 1f, 1f);

        /// <summary>Its rotation in the world.</summary>
        public Quaternion rotation { get; set; } = Quaternion.identity;

        /// <summary>Its place in the world.</summary>
        public Vector3 position
        {
            get => parent is null ? localPosition : parent.position + localPosition;
            set => localPosition = parent is null ? value : value - parent.position;
        }

        /// <summary>What hangs under it.</summary>
        internal Transform[] Children => _children.ToArray();

        /// <summary>The uppermost transform above it, or itself.</summary>
        internal Transform Root => parent is null ? this : parent.Root;

        /// <summary>Hangs it under another one; null: makes it a root of the scene that it is in.</summary>
        public void SetParent(Transform parent, bool worldPositionStays)
        {
            Vector3 place = position;
            SceneManagement.SceneState home = Root.gameObject.Home;
            this.parent?._children.Remove(this);
            gameObject.Home.Roots.Remove(gameObject);
            this.parent = parent;
            if (parent is null)
            {
                gameObject.Home = home;
                home.Roots.Add(gameObject);
            }
            else
            {
                parent._children.Add(this);
            }
            if (worldPositionStays)
            {
                position = place;
            }
            World.Refresh(gameObject);
        }

        /// <summary>Turns about an axis of its own.</summary>
        /// <param name="axis">Of length 1.</param>
        /// <param name="angle">In degrees.</param>
        public void Rotate(Vector3 axis, float angle)
        {
            rotation = rotation * Quaternion.AngleAxis(angle, axis);
        }

        /// <summary>Takes it out of the scene, without its children.</summary>
        internal void Detach()
        {
            parent?._children.Remove(this);
            gameObject.Home.Roots.Remove(gameObject);
            parent = null;
        }
    }

    /// <summary>Something that looks at the scene.</summary>
    public class Camera : Behaviour
    {
    }

    /// <summary>What a light does.</summary>
    public enum LightType
    {
        /// <summary>Like the sun.</summary>
        Directional = 1,
    }

    /// <summary>Something that lights the scene.</summary>
    public class Light : Behaviour
    {
        /// <summary>What it does.</summary>
        public LightType type { get; set; }
    }

    /// <summary>How a force works.</summary>
    public enum ForceMode
    {
        /// <summary>In m/s², whatever the mass.</summary>
        Acceleration = 5,
    }

    /// <summary>A body that forces move; it meets no other one here.</summary>
    public class Rigidbody : Component
    {
        private Vector3 _acceleration;

        /// <summary>Pulled by the scene's gravity; the scene has none here.</summary>
        public bool useGravity { get; set; } = true;

        /// <summary>Not moved by forces.</summary>
        public bool isKinematic { get; set; }

        /// <summary>In kg.</summary>
        public float mass { get; set; } = 1f;

        /// <summary>In rad/s.</summary>
        public Vector3 angularVelocity { get; set; }

        /// <summary>In m/s, by the name that it has since Unity 6.</summary>
        public Vector3 linearVelocity { get; set; }

        /// <summary>In m/s, by its older name.</summary>
        public Vector3 velocity
        {
            get => linearVelocity;
            set => linearVelocity = value;
        }

        /// <summary>Adds a force for the next physics step.</summary>
        public void AddForce(Vector3 force, ForceMode mode)
        {
            _acceleration += force;
        }

        /// <summary>Moves it, as Unity does after every FixedUpdate: first the velocity, then the place.</summary>
        internal void Move(float seconds)
        {
            if (!isKinematic)
            {
                linearVelocity += _acceleration * seconds;
                transform.position += linearVelocity * seconds;
            }
            _acceleration = Vector3.zero;
        }
    }
}
