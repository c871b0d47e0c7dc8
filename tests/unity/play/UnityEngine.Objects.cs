using System;
using System.Collections.Generic;
using System.Linq;

namespace UnityEngine
{
    /// <summary>
    /// What scenes are made of. As in Unity, a destroyed object is still there for C#, but equals null.
    /// </summary>
    public class Object
    {
        /// <summary>Its name in the scene.</summary>
        public string name { get; set; } = "";

        /// <summary>It was destroyed.</summary>
        internal bool IsDestroyed { get; set; }

        /// <summary>The same object, or both are null or destroyed.</summary>
        public static bool operator ==(Object left, Object right)
        {
            bool noLeft = left is null || left.IsDestroyed;
            bool noRight = right is null || right.IsDestroyed;
            return noLeft || noRight ? noLeft && noRight : ReferenceEquals(left, right);
        }

        /// <summary>The opposite of equality.</summary>
        public static bool operator !=(Object left, Object right)
        {
            return !(left == right);
        }

        /// <summary>Destroys at the end of the frame, after the documentation of Object.Destroy.</summary>
        public static void Destroy(Object target)
        {
            World.DestroyLater(target);
        }

        /// <summary>Destroys a game object at once.</summary>
        public static void DestroyImmediate(Object target)
        {
            World.DestroyNow(target);
        }

        /// <inheritdoc/>
        public override bool Equals(object other)
        {
            return ReferenceEquals(this, other);
        }

        /// <inheritdoc/>
        public override int GetHashCode()
        {
            return base.GetHashCode();
        }
    }

    /// <summary>A thing in a scene: a name, a place and components.</summary>
    public class GameObject : Object
    {
        private readonly List<Component> _parts = new List<Component>();

        /// <summary>A new root of the active scene, active.</summary>
        public GameObject(string name = "New Game Object")
        {
            this.name = name;
            Home = SceneManagement.SceneManager.Active;
            transform = new Transform { gameObject = this, IsAwake = true };
            _parts.Add(transform);
            Home.Roots.Add(this);
        }

        /// <summary>Its own switch; see <see cref="activeInHierarchy"/>.</summary>
        public bool activeSelf { get; private set; } = true;

        /// <summary>It and everything above it is switched on.</summary>
        public bool activeInHierarchy =>
            !IsDestroyed && activeSelf
            && (transform.parent is null || transform.parent.gameObject.activeInHierarchy);

        /// <summary>Its place in the scene.</summary>
        public Transform transform { get; }

        /// <summary>Its tag.</summary>
        public string tag { get; set; } = "Untagged";

        /// <summary>The scene that it is in.</summary>
        public SceneManagement.Scene scene => new SceneManagement.Scene(transform.Root.gameObject.Home);

        /// <summary>The scene that it is a root of, or was made in.</summary>
        internal SceneManagement.SceneState Home { get; set; }

        /// <summary>Its components, in the order in which they were added.</summary>
        internal Component[] Parts => _parts.ToArray();

        /// <summary>An object with the shape's name; shapes are not drawn here.</summary>
        public static GameObject CreatePrimitive(PrimitiveType shape)
        {
            return new GameObject(shape.ToString());
        }

        /// <summary>Adds a component, and before it those that it requires; wakes it in an active object.</summary>
        public T AddComponent<T>()
            where T : Component
        {
            return (T)Add(typeof(T));
        }

        /// <summary>The first component of a type; null: there is none.</summary>
        public T GetComponent<T>()
            where T : class
        {
            return _parts.OfType<T>().FirstOrDefault();
        }

        /// <summary>The first component of a type here or below; null: there is none.</summary>
        public T GetComponentInChildren<T>(bool includeInactive = false)
            where T : class
        {
            return GetComponentsInChildren<T>(includeInactive).FirstOrDefault();
        }

        /// <summary>All components of a type here and below.</summary>
        public T[] GetComponentsInChildren<T>(bool includeInactive = false)
            where T : class
        {
            return World.Below(this)
                .Where(each => includeInactive || each.activeInHierarchy)
                .SelectMany(each => each._parts)
                .OfType<T>()
                .ToArray();
        }

        /// <summary>Switches it; its components and those below hear of it before this returns.</summary>
        /// <exception cref="MissingReferenceException">It was destroyed.</exception>
        public void SetActive(bool value)
        {
            if (IsDestroyed)
            {
                throw new MissingReferenceException("The object of type 'GameObject' has been destroyed.");
            }
            if (activeSelf != value)
            {
                activeSelf = value;
                World.Refresh(this);
            }
        }

        /// <summary>Forgets a component that was destroyed by itself.</summary>
        internal void Remove(Component part)
        {
            _parts.Remove(part);
        }

        private Component Add(Type type)
        {
            foreach (RequireComponent need in type.GetCustomAttributes(typeof(RequireComponent), true))
            {
                if (!_parts.Any(part => need.Needed.IsInstanceOfType(part)))
                {
                    Add(need.Needed);
                }
            }
            var added = (Component)Activator.CreateInstance(type);
            added.gameObject = this;
            _parts.Add(added);
            World.Refresh(added);
            return added;
        }
    }

    /// <summary>Something was done with an object that was destroyed.</summary>
    public sealed class MissingReferenceException : SystemException
    {
        /// <summary>A sentence in Unity's words.</summary>
        public MissingReferenceException(string message)
            : base(message)
        {
        }
    }

    /// <summary>Shapes.</summary>
    public enum PrimitiveType
    {
        /// <summary>A ball.</summary>
        Sphere = 0,

        /// <summary>A box.</summary>
        Cube = 3,
    }
}
