// What ML-Agents and this project's scripts use of Unity's objects: they wake, step, sleep and die in Unity's order.
using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using UnityEngine.SceneManagement;

namespace UnityEngine
{
    [Flags]
    public enum HideFlags { None = 0, HideInHierarchy = 1, HideInInspector = 2, DontSave = 52, HideAndDontSave = 61 }

    public class Object
    {
        private static int _made;
        private static readonly List<Object> Doomed = new List<Object>();

        private readonly int _id = ++_made;

        public string name { get; set; } = "";

        public HideFlags hideFlags { get; set; }

        internal bool Gone { get; private set; }

        public int GetInstanceID() => _id;

        public override bool Equals(object other) => other is Object that && this == that;

        public override int GetHashCode() => _id;

        public static implicit operator bool(Object one) => one != null;

        /// <summary>What was destroyed is equal to null.</summary>
        public static bool operator ==(Object left, Object right) =>
            left is null || left.Gone ? right is null || right.Gone : ReferenceEquals(left, right);

        public static bool operator !=(Object left, Object right) => !(left == right);

        /// <summary>The object is asleep at once in our case, and gone at the end of the frame.</summary>
        public static void Destroy(Object one) => Doomed.Add(one);

        public static void DestroyImmediate(Object one) => one.Die();

        public static void DontDestroyOnLoad(Object one) { }

        internal static void Bury()
        {
            while (Doomed.Count > 0)
            {
                Object one = Doomed[0];
                Doomed.RemoveAt(0);
                one.Die();
            }
        }

        private protected virtual void Die() => Gone = true;
    }

    public sealed class GameObject : Object
    {
        internal readonly List<Component> Components = new List<Component>();

        /// <summary>Told of every object that somebody switches on, before it wakes.</summary>
        internal static Action<GameObject> Waking = _ => { };

        public GameObject() : this("New Game Object") { }

        public GameObject(string name)
        {
            this.name = name;
            transform = AddComponent<Transform>();
            SceneManager.GetActiveScene().Roots.Add(this);
        }

        public Transform transform { get; private set; }

        public string tag { get; set; } = "Untagged";

        public bool activeSelf { get; private set; } = true;

        public bool activeInHierarchy =>
            activeSelf && (transform?.parent is null || transform.parent.gameObject.activeInHierarchy);

        public Scene scene => SceneManager.GetActiveScene();

        public T AddComponent<T>() where T : Component => (T)Add(typeof(T));

        public T GetComponent<T>() => Components.OfType<T>().FirstOrDefault();

        public T GetComponentInChildren<T>(bool includeInactive) =>
            GetComponentsInChildren<T>(includeInactive).FirstOrDefault();

        public T[] GetComponentsInChildren<T>(bool includeInactive) =>
            Family().SelectMany(host => host.Components.OfType<T>()).ToArray();

        public void SetActive(bool value)
        {
            activeSelf = value;
            if (value)
            {
                Waking(this);
            }
            foreach (Component part in Family().SelectMany(host => host.Components.ToArray()).ToArray())
            {
                part.Look();
            }
        }

        public static GameObject CreatePrimitive(PrimitiveType type) => throw new NotSupportedException("no physics");

        private protected override void Die()
        {
            SetActive(false);
            foreach (GameObject host in Family().ToArray())
            {
                host.Components.ToArray().OfType<MonoBehaviour>().ToList().ForEach(DestroyImmediate);
            }
            transform.parent?.Children.Remove(transform);
            scene.Roots.Remove(this);
            base.Die();
        }

        internal IEnumerable<GameObject> Family() =>
            transform.Children.SelectMany(child => child.gameObject.Family()).Prepend(this);

        private Component Add(Type type)
        {
            foreach (RequireComponent wish in type.GetCustomAttributes<RequireComponent>(true))
            {
                if (!Components.Any(wish.Type.IsInstanceOfType))
                {
                    Add(wish.Type);
                }
            }
            var made = (Component)Activator.CreateInstance(type, true);
            made.gameObject = this;
            Components.Add(made);
            made.Look();
            return made;
        }
    }

    public class Component : Object
    {
        private bool _awake;
        private bool _enabled;
        private bool _started;

        public GameObject gameObject { get; internal set; }

        public Transform transform => gameObject.transform;

        public T GetComponent<T>() => gameObject.GetComponent<T>();

        public T GetComponentInChildren<T>(bool includeInactive) =>
            gameObject.GetComponentInChildren<T>(includeInactive);

        public T[] GetComponents<T>() => gameObject.Components.OfType<T>().ToArray();

        public void GetComponents<T>(List<T> results)
        {
            results.Clear();
            results.AddRange(GetComponents<T>());
        }

        public T[] GetComponentsInChildren<T>() => gameObject.GetComponentsInChildren<T>(false);

        /// <summary>Awake once, then OnEnable and OnDisable as the component and its object come and go.</summary>
        internal void Look()
        {
            bool active = gameObject.activeInHierarchy;
            if (active && !_awake)
            {
                _awake = true;
                Tell("Awake");
            }
            bool wanted = active && (!(this is Behaviour behaviour) || behaviour.enabled);
            if (wanted != _enabled)
            {
                _enabled = wanted;
                Tell(wanted ? "OnEnable" : "OnDisable");
            }
        }

        /// <summary>A message of the frame, to those that are enabled; Start before the first.</summary>
        internal void Step(string message)
        {
            if (_enabled && !_started)
            {
                _started = true;
                Tell("Start");
            }
            if (_enabled)
            {
                Tell(message);
            }
        }

        internal void Tell(string message)
        {
            const BindingFlags Any = BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic;
            MethodInfo method = null;
            for (Type type = GetType(); method == null && type != typeof(Component); type = type.BaseType)
            {
                method = type.GetMethod(message, Any | BindingFlags.DeclaredOnly, null, Type.EmptyTypes, null);
            }
            try
            {
                ((Action)method?.CreateDelegate(typeof(Action), this))?.Invoke();
            }
            catch (Exception error)
            {
                Debug.LogException(error, this); // as Unity does, which goes on
            }
        }

        private protected override void Die()
        {
            if (_enabled)
            {
                _enabled = false;
                Tell("OnDisable");
            }
            if (_awake)
            {
                Tell("OnDestroy");
            }
            gameObject.Components.Remove(this);
            base.Die();
        }
    }

    public class Behaviour : Component
    {
        private bool _switchedOn = true;

        public bool enabled
        {
            get => _switchedOn;
            set
            {
                _switchedOn = value;
                Look();
            }
        }

        public bool isActiveAndEnabled => enabled && gameObject.activeInHierarchy;
    }

    public class MonoBehaviour : Behaviour { }

    public class ScriptableObject : Object { }

    public sealed class Transform : Component
    {
        internal readonly List<Transform> Children = new List<Transform>();

        public Transform parent { get; private set; }

        public Vector3 position { get; set; }

        public Quaternion rotation { get; set; }

        public void SetParent(Transform parent, bool worldPositionStays)
        {
            this.parent = parent;
            if (parent != null)
            {
                parent.Children.Add(this);
                SceneManager.GetActiveScene().Roots.Remove(gameObject);
            }
        }
    }

    public sealed class Camera : Behaviour { }

    public enum LightType { Spot, Directional }

    public sealed class Light : Behaviour
    {
        public LightType type { get; set; }
    }
}

namespace UnityEngine.SceneManagement
{
    public struct Scene
    {
        internal List<GameObject> Roots => SceneManager.Everything;

        public string name => "Player";

        public bool isLoaded => true;

        public GameObject[] GetRootGameObjects() => Roots.ToArray();
    }

    /// <summary>One scene, for the whole life of the program.</summary>
    public class SceneManager
    {
        internal static readonly List<GameObject> Everything = new List<GameObject>();

        public static int sceneCount => 1;

        public static Scene GetActiveScene() => default;

        public static Scene GetSceneAt(int index) => default;

        public static Scene CreateScene(string name) => throw new NotSupportedException("one scene");

        public static bool SetActiveScene(Scene scene) => throw new NotSupportedException("one scene");

        public static AsyncOperation UnloadSceneAsync(Scene scene) => throw new NotSupportedException("one scene");
    }
}
